"""A codec, a store, a data type and a command, written with the public API and the door for plug-ins."""
