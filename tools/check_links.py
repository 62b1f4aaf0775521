"""Dead links within a built site: to a file that is not there, or to an anchor that its page lacks. And
pictures without a text for readers who do not see them.

Example: `dead_links(Path("build/site"))` is ["index.html: the-model.html#gone"]. Links to other sites are not
followed.
"""

from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LINKS = {"href", "src", "srcset"}


class _Page(HTMLParser):
    """What a page links to, and the anchors it has."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = {"", "top"}
        self.untold: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "img" and not dict(attrs).get("alt"):
            self.untold.append(dict(attrs).get("src") or "a picture")
        for name, value in attrs:
            if name in LINKS and value:
                self.links.append(value.split()[0] if name == "srcset" else value)
            elif value and (name == "id" or (name == "name" and tag == "a")):
                self.anchors.add(value)


@cache
def _page(path: Path) -> _Page:
    found = _Page()
    found.feed(path.read_text(encoding="utf-8"))
    return found


def dead_links(site: Path) -> list[str]:
    """`page: link` for every link of every page that leads nowhere in the site."""
    root = site.resolve()
    return [
        f"{path.relative_to(root).as_posix()}: {link}"
        for path in sorted(root.rglob("*.html"))
        if path.name != "404.html"  # shown at any address, so its links start at the server's root
        for link in _page(path).links
        if not _leads_somewhere(link, path)
    ]


def pictures_without_text(site: Path) -> list[str]:
    """`page: picture` for every picture without an `alt`."""
    root = site.resolve()
    pages = {path.relative_to(root).as_posix(): _page(path) for path in sorted(root.rglob("*.html"))}
    return [f"{name}: {picture[:80]}" for name, page in pages.items() for picture in page.untold]


def _leads_somewhere(link: str, page: Path) -> bool:
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return True
    target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
    target = target / "index.html" if target.is_dir() else target
    if not target.is_file():
        return False
    # Browsers look for the anchor as it is written before they decode it.
    wanted = {parts.fragment, unquote(parts.fragment)}
    return target.suffix != ".html" or not wanted.isdisjoint(_page(target).anchors)
