"""Session keys (row O3) and the history limits that channels set by them (row O5)."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ctxkit import ConfigError, HistoryConfig
from ctxkit.sessions import SessionKey, history_limit

NAMES = st.text(st.characters(exclude_categories=["C", "Z"], exclude_characters=":"), min_size=1, max_size=20)
USERS = st.lists(NAMES, min_size=1, max_size=3).map(":".join)


def key(user_id="ada", kind="dm", **parts):
    return SessionKey(**{"agent_id": "main", "provider": "telegram", "kind": kind, "user_id": user_id, **parts})


@pytest.mark.row("O3")
@pytest.mark.parametrize("kind", ["dm", "direct", "channel", "group"])
def test_a_key_has_agent_provider_kind_and_user(kind):
    parsed = SessionKey.parse(f"agent:main:discord:{kind}:1234")

    assert parsed == SessionKey(agent_id="main", provider="discord", kind=kind, user_id="1234")
    assert str(parsed) == f"agent:main:discord:{kind}:1234"
    assert parsed.is_direct == (kind in {"dm", "direct"})


def is_plain(user_id):
    return not user_id.rpartition(":")[0].endswith((":thread", ":topic"))


@pytest.mark.row("O3")
@given(NAMES, USERS.filter(is_plain), st.none() | NAMES, st.none() | NAMES)
@example("main", "@ada:example.org", "123", "456")
def test_what_is_built_is_what_is_parsed(name, user_id, thread, topic):
    for kind in ("dm", "direct", "channel", "group"):
        parts = {"agent_id": name, "provider": name, "kind": kind, "user_id": user_id}
        built = SessionKey(**parts, thread=thread, topic=topic)

        assert SessionKey.parse(str(built)) == built
        assert SessionKey.parse(built.base) == SessionKey(**parts)


@pytest.mark.row("O3")
@given(
    st.text(max_size=60)
    | st.lists(st.sampled_from(["agent", "main", "dm", "group", "thread", "topic", "", "1"])).map(":".join)
)
def test_whatever_text_is_parsed_comes_back_as_it_was_or_is_refused_in_words(text):
    try:
        parsed = SessionKey.parse(text)
    except ConfigError:
        assert SessionKey.find(text) is None
    else:
        assert str(parsed) == text
        assert SessionKey.find(text) == parsed


@pytest.mark.row("O3")
def test_thread_and_topic_stay_in_the_key_and_are_left_out_of_its_base():
    threaded = SessionKey.parse("agent:main:telegram:group:-100:thread:123:topic:456")

    assert (threaded.user_id, threaded.thread, threaded.topic) == ("-100", "123", "456")
    assert str(threaded) == "agent:main:telegram:group:-100:thread:123:topic:456"
    assert threaded.base == "agent:main:telegram:group:-100"
    assert threaded.delivery == {"channel": "telegram", "peer": "-100", "thread": "123", "topic": "456"}


@pytest.mark.row("O3")
@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ({"agent_id": "a:b"}, "agent_id is 'a:b'"),
        ({"provider": ""}, "provider is ''"),
        ({"kind": "friend"}, "kind is 'friend': give one of dm, direct, channel, group"),
        ({"user_id": "ada\nagent:x"}, "user_id is"),
        ({"user_id": "ada:thread:1"}, "as `thread` and `topic`"),
        ({"thread": ""}, "thread is ''"),
        ({"topic": "1:2"}, "topic is '1:2'"),
        ({"user_id": "\udc80"}, "user_id is"),
        ({"user_id": "x" * 2000}, "at most 1024 characters"),
        ({"user_id": None}, "user_id is None"),
    ],
)
def test_a_part_that_would_not_come_back_is_refused_in_words(parts, said):
    with pytest.raises(ConfigError, match=said):
        key(**parts)


@pytest.mark.parametrize(
    "text", ["", "main", "agent:main:main", "user:main:telegram:dm:ada", "agent:m:t:dm:", "agent::t:dm:a"]
)
def test_what_is_no_key_is_refused_and_found_to_be_none(text):
    assert SessionKey.find(text) is None
    with pytest.raises(ConfigError):
        SessionKey.parse(text)


# History limits (row O5)


CHANNELS = {
    "telegram": {"historyLimit": 20, "dmHistoryLimit": 50, "dms": {"ada": {"historyLimit": 5}, "eve": {}}},
    "discord": {"historyLimit": 30},
    "slack": {"dmHistoryLimit": 10, "dms": {"ada": {"historyLimit": 0}}},
}


@pytest.mark.row("O5")
@pytest.mark.parametrize(
    ("session_id", "limit"),
    [
        pytest.param("agent:main:telegram:dm:ada", 5, id="of the user first"),
        pytest.param("agent:main:telegram:direct:bob", 50, id="then of persons on the channel"),
        pytest.param("agent:main:telegram:direct:eve", 50, id="a user of whom nothing is said"),
        pytest.param("agent:main:telegram:group:ada", 20, id="of groups"),
        pytest.param("agent:main:discord:channel:ada", 30, id="of channels"),
        pytest.param("agent:main:discord:dm:ada", None, id="what is said of groups is not said of persons"),
        pytest.param("agent:main:slack:dm:ada", None, id="a user without a limit"),
        pytest.param("agent:main:slack:group:ada", None, id="nothing is said of groups"),
        pytest.param("agent:main:signal:dm:ada", None, id="a channel of which nothing is said"),
        pytest.param("3f2a", None, id="no key"),
        pytest.param("agent:main:telegram:dm:ada:thread:123", 5, id="thread"),
        pytest.param("agent:other:telegram:dm:ada:topic:456", 5, id="topic"),
        pytest.param("agent:main:telegram:group:-1:thread:1:topic:2", 20, id="both"),
    ],
)
def test_the_limit_of_a_session_is_that_of_its_user_else_that_of_its_channel(session_id, limit):
    assert history_limit(session_id, CHANNELS) == limit
    assert history_limit(session_id, HistoryConfig(channels=CHANNELS).channels) == limit


@pytest.mark.parametrize(
    ("channels", "said"),
    [
        ({"telegram": 5}, r"channels\.telegram is 5"),
        ({"telegram": {"historyLimit": -1}}, r"channels\.telegram\.historyLimit is -1"),
        ({"telegram": {"dmHistoryLimit": True}}, r"channels\.telegram\.dmHistoryLimit is True"),
        ({"telegram": {"dms": ["ada"]}}, r"channels\.telegram\.dms is \['ada'\]"),
        ({"telegram": {"dms": {"ada": {"historyLimit": "5"}}}}, r"channels\.telegram\.dms\.ada\.historyLimit is '5'"),
        ([], r"channels is \[\]"),
    ],
)
def test_channels_of_another_shape_are_refused_with_the_place(channels, said):
    with pytest.raises(ConfigError, match=said):
        HistoryConfig(channels=channels)


def test_of_a_channel_only_its_limits_are_kept():
    channels = {
        "telegram": {"botToken": "secret", "historyLimit": 3, "dms": {"ada": {"historyLimit": None, "name": "A"}}}
    }

    assert HistoryConfig(channels=channels).channels == {"telegram": {"historyLimit": 3, "dms": {"ada": {}}}}
