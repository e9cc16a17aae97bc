"""The store of a web server, and the connections that all stores over HTTP share."""
