"""A browser's names for tests, which are skipped where Playwright is not installed."""

from collections.abc import Callable

import pytest

from tests.ui.conftest import Clips as Clips

api = pytest.importorskip("playwright.sync_api")
APIResponse, Locator, Page, Route = api.APIResponse, api.Locator, api.Page, api.Route
expect, Open = api.expect, Callable[..., Page]
