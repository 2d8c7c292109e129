"""The screen of ``cress top``, with Textual."""

from __future__ import annotations

import time
from datetime import datetime
from typing import ClassVar

from rich.markup import escape
from textual import work
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.coordinate import Coordinate
from textual.screen import ModalScreen
from textual.widgets import DataTable, Footer, Input, Static

from cress.cli.tables import clean
from cress.cli.top_rows import EVENTS, GROUPS, NODES, WAITING, TopRow, TopTable, fitted, heading, shown
from cress.cli.top_source import Look, Source

# The part of a processor that looks may take, and the usual seconds between two.
PART, USUAL = 0.01, 5.0


class Panel(DataTable[str]):
    """One table of the screen, with its own order."""

    def __init__(self, table: TopTable, id: str) -> None:
        super().__init__(id=id, cursor_type="row", zebra_stripes=False, cell_padding=1)
        self.table = table
        self.sort_column: int | None = None
        self.backwards = False
        self._rows: list[TopRow] = []
        self._cells: list[list[str]] = []
        self._shape: tuple[str, int] = ("", 0)

    def show(self, look: Look, word: str) -> None:
        """Show a look; nothing is drawn again if nothing has changed."""
        rows = shown(self.table, look, word=word, sort=self.sort_column, backwards=self.backwards)
        width = self.app.size.width
        cells = [fitted(self.table, row, width) for row in rows]
        mark = "" if self.sort_column is None else " ▼" if self.backwards else " ▲"
        title = f"{self.table.title} ({len(rows)})" + (f" filter: {word}" if word else "")
        self.border_title = escape(title)
        shape = (f"{self.table.title}{self.sort_column}{mark}", width)
        if cells == self._cells and shape == self._shape:
            self._rows = rows
            return
        before, known, same = self.marked, self._cells, shape == self._shape
        self._rows, self._cells, self._shape = rows, cells, shape
        if same and len(cells) == len(known):
            # Only what has changed is drawn again: new rows cost several times as much.
            self._change(known)
        else:
            self.clear(columns=True)
            for i, (name, most) in enumerate(self.table.columns):
                self.add_column(name + (mark if i == self.sort_column else ""), width=most or None)
            self.add_rows(cells)
        place = next((i for i, row in enumerate(rows) if row.key == before), 0)
        if rows and place != self.cursor_row:
            self.move_cursor(row=place)

    def _change(self, known: list[list[str]]) -> None:
        """Write the cells that differ from those shown so far."""
        for row, (old, new) in enumerate(zip(known, self._cells, strict=True)):
            for column, (was, now) in enumerate(zip(old, new, strict=True)):
                if was != now:
                    self.update_cell_at(Coordinate(row, column), now)

    @property
    def marked_row(self) -> TopRow | None:
        """The marked row; ``None`` in an empty table."""
        return self._rows[self.cursor_row] if 0 <= self.cursor_row < len(self._rows) else None

    @property
    def marked(self) -> tuple[str, str] | None:
        """The kind and name of the subject in the marked row."""
        return None if self.marked_row is None else self.marked_row.key

    def next_order(self) -> None:
        """Sort by the next column; after the last one as the center does."""
        count = len(self.table.columns)
        self.sort_column = 0 if self.sort_column is None else self.sort_column + 1
        if self.sort_column == count:
            self.sort_column = None


class StoryScreen(ModalScreen[None]):
    """The story of one job, node or group, over the tables."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,enter", "dismiss", "back")]

    def __init__(self, title: str) -> None:
        super().__init__()
        self._title = title

    def compose(self) -> ComposeResult:
        """Compose the box with the text."""
        with VerticalScroll(id="story-box") as box:
            box.border_title = escape(self._title)
            yield Static("…", id="story", markup=False)

    def tell(self, text: str) -> None:
        """Show the text."""
        self.query_one("#story", Static).update(text)


class TopApp(App[None]):
    """The screen: a line of key figures, groups, what waits or nodes, and events."""

    ENABLE_COMMAND_PALETTE = False
    TITLE = "cress top"
    CSS = """
    #heading { height: 1; background: $primary; color: $text; }
    #heading.old { background: $error; }
    Panel { border: round $surface-lighten-2; padding: 0; height: 1fr; scrollbar-size-vertical: 1; }
    Panel:focus { border: round $accent; }
    #groups { height: 3fr; }
    #waiting, #nodes { height: 4fr; }
    #events { height: 3fr; }
    #detail { height: 2; padding: 0 1; color: $text-muted; }
    #filter { height: 1; border: none; padding: 0; display: none; }
    #filter.asked { display: block; }
    #story-box { width: 90%; height: 80%; border: round $accent; background: $surface; padding: 0 1; }
    StoryScreen { align: center middle; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", "quit"),
        Binding("slash", "filter", "filter"),
        Binding("s", "sort", "sort"),
        Binding("S", "turn", "turn", show=False),
        Binding("n", "show('nodes')", "nodes"),
        Binding("w", "show('waiting')", "waiting"),
        Binding("p", "pause", "pause"),
        Binding("escape", "unfilter", "no filter", show=False),
    ]

    def __init__(self, source: Source, every: float) -> None:
        super().__init__()
        self._source, self._every = source, every
        self._paused = False
        self._word = ""
        # The time and the processor time (seconds) from which looks are counted.
        self._begun: tuple[float, float] | None = None
        self.seen: Look | None = None

    def compose(self) -> ComposeResult:
        """Compose the screen."""
        yield Static("…", id="heading", markup=False)
        yield Panel(GROUPS, id="groups")
        yield Panel(WAITING, id="waiting")
        yield Panel(NODES, id="nodes")
        yield Static("", id="detail", markup=False)
        yield Panel(EVENTS, id="events")
        yield Input(placeholder="filter: a word; Enter keeps it, Esc removes it", id="filter")
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        """Begin to look at the center."""
        self.query_one("#nodes").display = False
        self.query_one("#waiting").focus()
        self.set_interval(self._every, self.look_again)
        self.look()

    def look_again(self) -> None:
        """Look, unless the looks so far took more than their part of a processor."""
        now, spent = time.monotonic(), time.process_time()
        if self._begun is None:
            # The start of the program, with its first look, does not count.
            self._begun = now, spent
        begun, before = self._begun
        # Whoever asks for looks more often gets them.
        share = PART * max(1.0, USUAL / self._every)
        if spent - before <= share * (now - begun):
            self.look()

    @property
    def _nodes_shown(self) -> bool:
        return bool(self.query_one("#nodes").display)

    @work(thread=True, exclusive=True, group="look")
    def look(self) -> None:
        """Look at the center, in a thread."""
        if self._paused:
            return
        try:
            seen = self._source.look(nodes=self._nodes_shown, word=self._word)
        except Exception as error:  # noqa: BLE001 – whatever keeps the answer away is shown, and asked again
            self.call_from_thread(self._old, str(error))
            return
        self.call_from_thread(self._show, seen)

    def _old(self, why: str) -> None:
        line = self.query_one("#heading", Static)
        line.add_class("old")
        line.update(clean(f"no answer, the tables are old: {why}"))

    def _show(self, seen: Look | None = None) -> None:
        """Show a look, or the last one again in another order."""
        self.seen = seen or self.seen
        if self.seen is None:
            return
        if seen is not None:
            line = self.query_one("#heading", Static)
            line.set_class(bool(seen.state.problem), "old")
            line.update(clean(seen.state.problem or heading(seen)))
        for panel in self.query(Panel):
            if panel.display:
                panel.show(self.seen, self._word)
        # The marked row may have another text in its place.
        self._tell_marked(self.focused)

    # --- keys ------------------------------------------------------------------------------------------------

    def _panel(self) -> Panel:
        return self.focused if isinstance(self.focused, Panel) else self.query_one("#waiting", Panel)

    def action_sort(self) -> None:
        """Sort the table by its next column."""
        self._panel().next_order()
        self._show()

    def action_turn(self) -> None:
        """Turn the order of the table round."""
        panel = self._panel()
        panel.backwards = not panel.backwards
        self._show()

    def action_show(self, which: str) -> None:
        """Show nodes, or what waits."""
        for name in ("nodes", "waiting"):
            self.query_one(f"#{name}").display = name == which
        self.query_one(f"#{which}").focus()
        self._show()
        self.look()

    def action_pause(self) -> None:
        """Stop looking, or go on."""
        self._paused = not self._paused
        self.sub_title = "paused" if self._paused else ""
        if not self._paused:
            self.look()
        elif self.seen is not None:
            self.query_one("#heading", Static).update(clean(f"paused  {heading(self.seen)}"))

    def action_filter(self) -> None:
        """Ask for a word."""
        box = self.query_one("#filter", Input)
        box.add_class("asked")
        box.focus()

    def action_unfilter(self) -> None:
        """Remove the filter."""
        self.query_one("#filter", Input).value = ""
        self._word = ""
        self._leave_filter()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter while the word is written."""
        self._word = event.value.strip()
        self._show()

    def on_input_submitted(self) -> None:
        """Keep the filter."""
        self._leave_filter()

    def _leave_filter(self) -> None:
        self.query_one("#filter", Input).remove_class("asked")
        self.query_one("#nodes" if self._nodes_shown else "#waiting").focus()
        self._show()

    def on_data_table_row_highlighted(self, event: DataTable.RowHighlighted) -> None:
        """Tell the marked row in full: its reason is longer than its column."""
        self._tell_marked(event.data_table)

    def on_descendant_focus(self) -> None:
        """Tell the marked row of the table that is used now."""
        self._tell_marked(self.focused)

    def _tell_marked(self, panel: object) -> None:
        if isinstance(panel, Panel) and panel is self.focused:
            row = panel.marked_row
            self.query_one("#detail", Static).update("" if row is None else row.text)

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        """Open the story of the marked row."""
        panel = event.data_table
        marked = panel.marked if isinstance(panel, Panel) else None
        if marked is None:
            return
        kind, name = marked
        screen = StoryScreen(f"{kind} {name}")
        self.push_screen(screen)
        self._read_story(screen, kind, name)

    @work(thread=True, group="story")
    def _read_story(self, screen: StoryScreen, kind: str, name: str) -> None:
        try:
            lines = self._source.story(kind, name)
            text = "\n".join(
                f"{datetime.fromtimestamp(at).astimezone():%m-%d %H:%M:%S}  {clean(told)}" for at, told in lines
            )
        except Exception as error:  # noqa: BLE001 – as in ``look``
            text = f"no answer: {clean(str(error))}"
        self.call_from_thread(screen.tell, text or "nothing is known of it any more")
