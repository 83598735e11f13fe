from __future__ import annotations

import json

from daemon.model.goals import Goal, GoalTree
from daemon.store.files import GoalFile


def tree(*goals: Goal) -> GoalTree:
    return GoalTree(mission='日本\u2028語 "quoted"', current_id="2", goals=list(goals))


def test_the_file_is_the_json_of_the_whole_tree() -> None:
    full = tree(
        Goal(id="1", description="one\u2028\nline"), Goal(id="2", parent_id="1", description="two []\n}")
    )
    data = GoalFile().encoded(full)
    assert data == json.dumps(full.stored(), ensure_ascii=False, indent=1).encode()
    assert GoalTree.model_validate_json(data) == full


def test_a_tree_without_goals_is_encoded_too() -> None:
    assert GoalTree.model_validate_json(GoalFile().encoded(tree())) == tree()


def test_changed_added_moved_and_removed_goals_are_seen() -> None:
    file = GoalFile()
    one, two, three = (Goal(id=i, description=i) for i in "123")
    file.encoded(tree(one, two))
    changed = tree(two, three, one.model_copy(update={"status": "completed", "summary": "done"}))
    assert GoalTree.model_validate_json(file.encoded(changed)) == changed
    assert GoalTree.model_validate_json(file.encoded(tree(three))) == tree(three)
