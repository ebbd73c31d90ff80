"""What tests in a browser need at hand; they are skipped where Playwright is not installed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from tests.support.slow import slow
from tests.ui.conftest import Clips as Clips, Serve as Serve, Server as Server

api = pytest.importorskip("playwright.sync_api")
APIResponse, Locator, Page, Route = api.APIResponse, api.Locator, api.Page, api.Route
expect = api.expect
Open = Callable[..., Page]


def opened(
    of: str = "server",
    *,
    also: Mapping[str, dict[str, Any]] | None = None,
    **screens: dict[str, Any],
) -> pytest.MarkDecorator:
    """Let `page` show the page of the server in the fixture `of` on each of these screens, and slowly on those `also`."""
    pages = [pytest.param((of, screen), id=name) for name, screen in screens.items()]
    pages = pages or [pytest.param((of, {}), id=of)]
    pages += [pytest.param((of, each), id=name, marks=slow) for name, each in (also or {}).items()]
    return pytest.mark.parametrize("page", pages, indirect=True)
