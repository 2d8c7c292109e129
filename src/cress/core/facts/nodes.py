"""Facts about nodes, and about what the cluster offers as a whole: racks, load, data, licences."""

from __future__ import annotations

from cress.core import adoption
from cress.core.books import Books
from cress.core.charging import recharge_node, refresh_quotas_now
from cress.core.claims import void_claims
from cress.core.facts.attempts import AttemptAppliers
from cress.core.facts.rows import BY_TABLES, LOOSENS, Rows
from cress.core.fragments.holders import leave_node
from cress.core.jobs import LeaseRow, Stranger
from cress.model.events import (
    DataLocated,
    LicencesSet,
    LoadSeen,
    NodeAdded,
    NodeChanged,
    NodeCordoned,
    NodeLost,
    PortsSeen,
    RacksSet,
)


class NodeAppliers:
    """Nodes join, change and leave."""

    def __init__(self, books: Books, attempts: AttemptAppliers) -> None:
        self._books = books
        self._attempts = attempts
        self._cluster = books.cluster
        self._groups = books.groups
        self._matching = books.matching
        self._relations = books.relations
        self._loads = books.loads
        self._plans = books.plans
        self._pool = books.pool
        # True if nodes joined or left in the batch: the consequences for the whole cluster are computed once, at its
        # end.
        self.unsettled = False

    def rows(self) -> Rows:
        """Return the rows of the ledger's table."""
        return {
            NodeAdded: (self._added, BY_TABLES),
            NodeLost: (self._lost, BY_TABLES),
            NodeCordoned: (self._cordoned, BY_TABLES),
            NodeChanged: (self._changed, LOOSENS),
            PortsSeen: (self._ports_seen, LOOSENS),
            # Gangs may have more room although no clause changes on any node.
            RacksSet: (self._racks_set, LOOSENS),
            LoadSeen: (self._load_seen, LOOSENS),
            DataLocated: (self._matching.locate, LOOSENS),
            LicencesSet: (self._licences_set, LOOSENS),
        }

    def settle(self) -> None:
        """Compute the consequences for the whole cluster of the nodes that joined or left in the batch, if any did."""
        if not self.unsettled:
            return
        self.unsettled = False
        books, balance = self._books, self._books.balance
        balance.refresh()
        balance.cursor %= max(1, self._cluster.node_count)
        books.units.in_doubt = True
        if self._groups.default_is_implied():
            refresh_quotas_now(books)
        if self._relations.choices.changed:
            self._ask_again()

    def _ask_again(self) -> None:
        """Match all shapes again, because the choices of nodes have changed."""
        books = self._books
        self._relations.choices.changed = False
        books.fit.rematch()
        for job in list(books.jobs.values()):
            books.shapes.renew(job)

    def _added(self, event: NodeAdded) -> None:
        self._cluster.add_node(event.node)
        self.unsettled = True

    def _lost(self, event: NodeLost) -> None:
        books, f = self._books, self._cluster.index[event.name]
        self.unsettled = True
        if self._cluster.lost[f]:
            return
        self._pool.close_on(f)
        for holder in sorted(books.holders_on(f), key=lambda holder: holder.id):
            if isinstance(holder, LeaseRow):
                # It leaves together with its task.
                continue
            if isinstance(holder, Stranger):
                adoption.leave(books, holder)
                continue
            self._attempts.give_back(holder, holder.stopping or holder.job.job.job_failure)
        self._relations.ports.forget(f)
        self._loads.forget(f)
        self._cluster.lose_node(f)
        void_claims(books, f)

    def _cordoned(self, event: NodeCordoned) -> None:
        f = self._cluster.index[event.name]
        self._cluster.cordon(f, event.reason if event.cordoned else None, away=event.cordoned and event.away)
        void_claims(self._books, f)

    def _changed(self, event: NodeChanged) -> None:
        books, cluster = self._books, self._cluster
        f = cluster.index[event.node.name]
        if cluster.differs(event.node):
            # The indexes of its devices may change.
            leave_node(books, f)
        kinds = self._groups.kinds.on(f) if self._groups.kinds else ()
        changed = cluster.change_node(event.node)
        other_kind = bool(kinds) and self._groups.kinds.on(f) != kinds
        if (changed or other_kind) and not cluster.lost[f]:
            recharge_node(books, f)
        if changed:
            self.unsettled = True
            if not cluster.lost[f]:
                adoption.check_room(books, f)
        if self._relations.choices.changed:
            self.unsettled = True
        self._loads.judge(f)
        void_claims(books, f)

    def _ports_seen(self, event: PortsSeen) -> None:
        f = self._cluster.index[event.name]
        self._relations.ports.see(f, event.ports)
        self._matching.touch(f)

    def _racks_set(self, event: RacksSet) -> None:
        self._relations.set_topology(event.neighbours, event.distances)
        self._matching.redo_domains()
        self._plans.reconsider()

    def _load_seen(self, event: LoadSeen) -> None:
        void_claims(self._books, self._loads.see(event))

    def _licences_set(self, event: LicencesSet) -> None:
        self._matching.set_licences(event.counts)
        self._plans.reconsider()
        self._books.units.in_doubt = True
