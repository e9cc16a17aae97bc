"""The examples of docs/coming-from.md and the drawings of the pages."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "coming-from.md").read_text()


def test_examples(tmp_path):
    """All examples run, one after the other, as they stand."""
    code = "\n".join(re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL))
    assert code.count("assert") >= 8
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_drawings():
    """Each drawing that a page asks for is made, as XML."""
    code = (
        "import re, sys, xml.dom.minidom\n"
        "from pathlib import Path\n"
        "from make import drawings\n"
        "for page in Path('docs').glob('*.md'):\n"
        "    for name in re.findall(r'<!-- drawing: (\\w+) -->', page.read_text()):\n"
        "        xml.dom.minidom.parseString(drawings.draw(name))\n"
        "        print(name)\n"
    )
    environment_path = f"import sys; sys.path.insert(0, {str(ROOT / 'docs')!r})\n"
    done = subprocess.run(
        [sys.executable, "-c", environment_path + code], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert {"chunks", "shards", "pyramid", "stack", "volume", "speed", "layers"} <= set(done.stdout.split())
