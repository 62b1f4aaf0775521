"""Something to do once, when nothing has happened for a moment.

Picture: a slider is dragged over twenty values; each is drawn at once as a fast preview, and only the
last one in full detail, 0.4 s after the hand has come to rest.
"""

import asyncio
from collections.abc import Callable


class WhenStill:
    """Calls `action` so many seconds after the last `restart`; at once where no event loop runs."""

    def __init__(self, action: Callable[[], None], delay_s: float) -> None:
        self._action = action
        self._delay_s = delay_s
        self._timer: asyncio.TimerHandle | None = None

    def restart(self) -> None:
        """Begins to wait anew."""
        self.cancel()
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self._action()
            return
        self._timer = loop.call_later(self._delay_s, self._action)

    def cancel(self) -> None:
        """Drops what was waiting."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
