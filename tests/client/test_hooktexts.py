"""Hooks as they are written: a command, or a URL that can be posted to."""

import pytest

from grn_zmq.config import BadSetting, read_config
from grn_zmq.hooktexts import can_be, is_url
from grn_zmq.options import JobOptions


@pytest.mark.parametrize("text", ["http://a/b", "https://a", "HTTPS://A"])
def test_what_begins_with_http_is_a_url(text: str) -> None:
    assert (is_url(text), can_be(text)) == (True, True)


@pytest.mark.parametrize("text", ["", "notify-send done", "curl http://a", "/bin/x http://a"])
def test_all_else_is_a_command(text: str) -> None:
    assert (is_url(text), can_be(text)) == (False, True)


@pytest.mark.parametrize("text", ["ftp://a", "file:///etc/passwd", "s3+x://a"])
def test_other_schemes_are_neither_and_refused_by_options_and_settings(text: str) -> None:
    assert (is_url(text), can_be(text)) == (False, False)
    with pytest.raises(ValueError, match="URL with http"):
        JobOptions(on_end=text)
    with pytest.raises(BadSetting, match="http"):
        read_config(None, {"on_end": text})
