"""What an agent's calls say of its tasks."""

import pytest

from ctxkit.triggers import task_change


@pytest.mark.parametrize(
    ("arguments", "change"),
    [
        ('{"task_id": "1", "status": "in_progress"}', "open"),
        ('{"task_id": "1", "status": "completed"}', "done"),
        ('{"task_id": "1", "status": "deleted"}', "done"),
        ('{"task_id": "1", "subject": "Other words"}', None),
        ('{"task_id": "1", "status": ["completed"]}', None),
        ('["completed"]', None),
        ("{", None),
        ('{"status": "completed"' + " " * 40_000 + "}", None),
    ],
)
def test_a_change_of_a_task_is_read_from_its_arguments(arguments, change):
    assert task_change("TaskUpdate", arguments) == change


def test_no_other_tool_changes_a_task():
    assert task_change("Bash", '{"status": "completed"}') is None
