"""plotly.js for pages of ours: its basic bundle, bars and lines, compressed: 0.5 MB where the whole has 4.8.

Example: a page of `wavesim compare` holds it as text; the page's browser unpacks it before it draws, with no
network. The file is npm's `plotly.js-basic-dist-min` 4.1.1, which the pinned plotly 7.1.0 bundles whole.
"""

import base64
from functools import cache
from pathlib import Path

from wavesim.safe_io.escaping import Markup

SOURCE = Path(__file__).parent / "plotly_basic.js.gz"
# A promise of Plotly, once per page however many parts of it ask. A browser that cannot unpack says so.
UNPACK = """/* plotly.js 4.1.1, basic bundle, Copyright Plotly, Inc., MIT licence */
window.wavesimPlotly ??= (async () => {
  if (!window.DecompressionStream) throw new Error("this browser is too old to unpack the figures' script");
  const bytes = Uint8Array.from(atob("PACKED"), (letter) => letter.charCodeAt(0));
  const unpacked = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  const script = document.createElement("script");
  script.textContent = await new Response(unpacked).text();
  document.head.append(script);
  return window.Plotly;
})();"""


@cache
def packed_plotly() -> Markup:
    """A script that promises Plotly as `window.wavesimPlotly`."""
    return Markup(UNPACK.replace("PACKED", base64.b64encode(SOURCE.read_bytes()).decode("ascii")))
