"""The pages: what auditors and operators see in a browser; `accounts` tell it to programs.

Guide for whoever adds a page
-----------------------------
A page is three things: a *view* (a frozen struct and the function that fills it), a *template*,
and a *handler* in `routes/`, listed in `pages.HANDLERS`. Nothing else knows of it.

- Handlers take `frame: NamedDependency[Frame]`. It stands for one request of a person who is
  signed in: `frame.past(scenario)` is the scenario as of the position asked for, `frame.history`
  the log up to it, `frame.render("name.html", ...)` the answer. A scenario in the path is checked
  against the token before the handler runs.
- A view uses only facts of positions up to `at`: through `Past`, `History` and `facts`, never
  from values that the state keeps of now alone. So a page as of p is what it was when the log
  ended at p; `tests/web_pages.py` compares the two, and every page has that test.
- A view's clock is `frame.now`: the time of the event at `at` when the past is looked at.
- No page reads more than it shows. Lists have a limit and a pager by position.
- Templates extend `layout.html` and use `macros.html`. Everything is escaped; a missing value is
  an error. No inline script and no inline style: the content security policy forbids both.
- Everything works without JavaScript, but for live updates and the checking of proofs.
- What changes something is a form in `actions`, which pulls a lever of `reef_release.api.levers`:
  the same one that the API pulls.
- What a page says of a scenario or a candidate in words, its account says too (`accounts`).
"""
