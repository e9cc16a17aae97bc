"""``python -m chunkwise``."""

import sys

from chunkwise.cli.main import main

sys.exit(main())
