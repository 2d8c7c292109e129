"""Actions that need a role, and the least role for each."""

from __future__ import annotations

from enum import Enum

from cress.model.access import Role


class Action(Enum):
    """Actions that need a role, whoever owns the work; the value is the wording in refusals."""

    SUBMIT = "submit jobs"
    STEER_NODES = "change nodes"
    ADMIT_NODES = "make tokens by which nodes join"
    CHANGE_GROUPS = "change groups"
    CHANGE_CONFIG = "change the configuration of the cluster"
    CHANGE_USERS = "change users, tokens of others, or the key of the secrets"
    READ_AUDIT = "read the audit log"
    MOVE_TASKS = "move running tasks of others"
    RESERVE = "make advance reservations"
    HAND_OVER = "have another center take over"
    COPY_HISTORY = "copy the history of a center"


LEAST: dict[Action, Role] = {
    Action.SUBMIT: Role.USER,
    Action.STEER_NODES: Role.OPERATOR,
    Action.ADMIT_NODES: Role.OPERATOR,
    Action.CHANGE_GROUPS: Role.ADMIN,
    Action.CHANGE_CONFIG: Role.ADMIN,
    Action.CHANGE_USERS: Role.ADMIN,
    Action.READ_AUDIT: Role.ADMIN,
    Action.MOVE_TASKS: Role.ADMIN,
    Action.RESERVE: Role.ADMIN,
    Action.HAND_OVER: Role.ADMIN,
    Action.COPY_HISTORY: Role.ADMIN,
}
