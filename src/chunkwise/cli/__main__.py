"""``python -m chunkwise.cli``."""

import sys

from chunkwise.cli.main import main

sys.exit(main())
