"""What tests in a browser need at hand; they are skipped where Playwright is not installed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.ui.conftest import (
    PHONE as PHONE,
    Clips as Clips,
    Serve as Serve,
    Server as Server,
    within as within,
    write_script as write_script,
)

api = pytest.importorskip("playwright.sync_api")
APIResponse, Locator, Page, Route = api.APIResponse, api.Locator, api.Page, api.Route
expect = api.expect
Open = Callable[..., Page]


def opened(of: str = "server", **screens: dict[str, Any]) -> pytest.MarkDecorator:
    """Let the fixture `page` show the page of the server in the fixture `of`, once on each of these screens."""
    pages = [(of, screen) for screen in screens.values()] or [(of, {})]
    return pytest.mark.parametrize("page", pages, ids=list(screens) or [of], indirect=True)
