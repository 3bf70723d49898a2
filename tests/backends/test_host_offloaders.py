"""What the suite for offloaders says of AgentScope's own workspace, and of the example in its documentation.

`docs/how-to/test-your-store.md` has the table; a version of AgentScope that does better fails here.
"""

from __future__ import annotations

import pytest
from agentscope.workspace import LocalWorkspace as HostWorkspace

from ctxkit.testing import OffloaderSuite

from .failing import read_failures
from .outcomes import failures

OF_THE_HOST = {
    "a_back_end_that_fails_costs_no_message",
    "a_result_that_comes_again_is_stored_once",
    "any_text_is_a_session_of_its_own",
    "any_text_is_the_id_of_a_call",
    "cancelled_calls_that_are_repeated_are_stored_once",
    "lone_surrogates_fail_nothing",
    "many_processes_at_once_lose_and_repeat_nothing",
    "many_results_of_one_id_are_all_kept",
    "many_tasks_at_once_lose_nothing",
    "messages_that_come_again_are_stored_once",
    "several_clients_lose_nothing",
    "what_a_killed_process_was_told_is_there_once",
    "what_was_stored_is_there_when_the_place_is_opened_anew",
}

BY_CHANCE = {"the_same_call_from_many_tasks_is_stored_once"}
"""What the host's workspace fails at some times only."""

OF_THE_EXAMPLE = {
    "a_second_call_keeps_what_the_first_one_stored",
    "another_result_under_the_same_id_keeps_the_first",
    "any_text_is_a_session_of_its_own",
    "any_text_is_the_id_of_a_call",
    "cancelled_calls_that_are_repeated_are_stored_once",
    "lone_surrogates_fail_nothing",
    "many_results_of_one_id_are_all_kept",
    "many_tasks_at_once_lose_nothing",
    "messages_that_come_again_are_stored_once",
    "several_clients_lose_nothing",
    "what_was_stored_is_there_when_the_place_is_opened_anew",
}


class HostSuite(OffloaderSuite):
    """AgentScope's own workspace."""

    appends = 100

    async def open_offloader(self, place):
        workspace = HostWorkspace(workdir=str(place))
        await workspace.initialize()
        return workspace

    async def close_offloader(self, offloader):
        await offloader.close()

    def outages(self, place):
        return read_failures()


class S3Offloader:
    """The example of AgentScope's documentation, with a dictionary for the bucket."""

    def __init__(self, bucket, prefix, objects):
        self.bucket = bucket
        self.prefix = prefix
        self.objects = objects

    async def _upload(self, bucket, key, content):
        self.objects[f"s3://{bucket}/{key}"] = content

    async def offload_context(self, session_id, msgs, **kwargs):
        key = f"{self.prefix}/sessions/{session_id}/context.jsonl"
        content = "\n".join(m.model_dump_json() for m in msgs)
        await self._upload(self.bucket, key, content)
        return f"s3://{self.bucket}/{key}"

    async def offload_tool_result(self, session_id, tool_result, **kwargs):
        key = f"{self.prefix}/sessions/{session_id}/tool_result-{tool_result.id}.txt"
        blocks = tool_result.output if isinstance(tool_result.output, list) else [tool_result.output]
        await self._upload(self.bucket, key, "".join(str(getattr(block, "text", block)) for block in blocks))
        return f"s3://{self.bucket}/{key}"


class S3Suite(OffloaderSuite):
    """Clients of one bucket in this process."""

    kills = 0
    processes = False

    def __init__(self):
        self.objects = {}

    def open_offloader(self, place):
        return S3Offloader("bucket", "agents", self.objects)

    async def read(self, offloader, reference):
        return self.objects.get(reference)


@pytest.mark.slow
@pytest.mark.row("X15")
# A call of the host that is cancelled leaves its file open.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.may_block("the host's workspace blocks")
def test_the_hosts_workspace_fails_exactly_what_the_docs_list(tmp_path):
    assert failures(HostSuite(), tmp_path).keys() - BY_CHANCE == OF_THE_HOST


@pytest.mark.row("X15")
def test_the_example_that_overwrites_its_key_fails_exactly_what_the_docs_list(tmp_path):
    assert failures(S3Suite(), tmp_path).keys() == OF_THE_EXAMPLE
