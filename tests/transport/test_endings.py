from __future__ import annotations

import pickle

from openenv_gym.errors import ServerConnectionError, ServerTimeoutError
from openenv_gym.transport import ChannelClosed, ChannelSilence
from openenv_gym.transport.endings import lost, said_goodbye


def test_a_goodbye_has_code_and_reason() -> None:
    error = said_goodbye(1012, "restart")
    assert (error.close_code, error.reason) == (1012, "restart")
    assert str(error) == "the peer closed the connection with code 1012 (restart); connect again"
    assert str(said_goodbye(1005, "")) == "the peer closed the connection with code 1005; connect again"


def test_a_lost_connection_has_code_1006() -> None:
    assert lost().close_code == 1006
    assert str(lost()) == "the connection is lost: it ended without a close frame; connect again"
    error = lost(ConnectionResetError(104, "Connection reset by peer"))
    assert (error.close_code, error.reason) == (1006, "Connection reset by peer")
    assert lost(OSError("odd")).reason == "odd"


def test_they_are_connection_errors_and_travel_between_processes() -> None:
    assert issubclass(ChannelClosed, ServerConnectionError)
    assert issubclass(ChannelSilence, ServerTimeoutError)
    error = pickle.loads(pickle.dumps(said_goodbye(1001, "bye")))
    assert (type(error), error.close_code, error.reason) == (ChannelClosed, 1001, "bye")


def test_without_details_it_is_an_abnormal_end() -> None:
    assert (ChannelClosed("gone").close_code, ChannelClosed("gone").reason) == (1006, "")
