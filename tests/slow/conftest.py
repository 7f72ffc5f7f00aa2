"""A real browser for the tests of the page."""

from collections.abc import Iterator

import pytest

from tests.support.browser import Tab, chromium, open_tab


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    """A tab of a headless Chromium, for all tests of a module."""
    binary = chromium()
    if binary is None:
        pytest.skip("no Chromium on this machine: install the package `chromium` to test the page in a browser")
    with open_tab(binary, tmp_path_factory.mktemp("profile")) as tab:
        yield tab
