"""Makes the strategies of this folder importable, which ``--import-mode=importlib`` does not."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
