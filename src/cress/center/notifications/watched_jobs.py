"""The jobs whose expected starts are watched, since somebody is to be told when these change."""

from __future__ import annotations

from collections.abc import Iterator


class WatchedJobs:
    """At most ``most`` jobs; where there are more, the oldest one of the user with most of them is dropped."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._users: dict[int, str] = {}
        self._of_user: dict[str, dict[int, None]] = {}  # oldest first
        self._told: dict[int, float] = {}

    def add(self, number: int, user: str) -> None:
        """Watch a job of a user."""
        self._users[number] = user
        self._of_user.setdefault(user, {})[number] = None
        while len(self._users) > self._most:
            crowd = max(self._of_user.values(), key=len)
            self.discard(next(iter(crowd)))

    def told(self, number: int) -> float | None:
        """Return the expected start of a job that was last told, if any."""
        return self._told.get(number)

    def tell(self, number: int, expected: float) -> None:
        """Note the expected start of a job as told, if it is still watched."""
        if number in self._users:
            self._told[number] = expected

    def discard(self, number: int) -> None:
        """Watch a job no longer."""
        self._told.pop(number, None)
        user = self._users.pop(number, None)
        if user is not None:
            own = self._of_user[user]
            del own[number]
            if not own:
                del self._of_user[user]

    def __iter__(self) -> Iterator[int]:
        return iter(self._users)
