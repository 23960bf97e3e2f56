// What pages do beyond HTML: copy buttons, the live tail, a notice of new events, and a hint at wide tables.
// Nothing here is needed to read a page or to act on it.

const TAIL_ROWS = 20;

for (const button of document.querySelectorAll("button.copy")) {
  button.hidden = false;
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(button.dataset.copy);
    button.classList.add("done");
    setTimeout(() => button.classList.remove("done"), 1500);
  });
}

// A shade says that a table goes on beyond its edge, where no scroll bar is seen.
for (const area of document.querySelectorAll(".scroll")) {
  const look = () => area.classList.toggle("more", area.scrollLeft + area.clientWidth < area.scrollWidth - 1);
  area.addEventListener("scroll", look, { passive: true });
  new ResizeObserver(look).observe(area);
}

function cell(content, name) {
  const made = document.createElement("td");
  made.append(content);
  if (name) made.className = name;
  return made;
}

function tailRow(row, scenario, heads) {
  const made = document.createElement("tr");
  const link = document.createElement("a");
  link.className = "position";
  link.href = `/s/${encodeURIComponent(scenario)}/log/${row.position}`;
  link.textContent = `#${row.position}`;
  const time = row.recorded_at.slice(11, 19);
  made.append(cell(link), cell(row.line, "wide"), cell(row.type, "nowrap"), cell(time, "nowrap"), cell(row.actor, "nowrap"));
  made.className = "new";
  // What the service writes into its own rows, for narrow screens.
  made.setAttribute("role", "row");
  [...made.cells].forEach((each, index) => {
    each.setAttribute("role", "cell");
    each.dataset.label = heads[index].textContent;
  });
  return made;
}

function follow(after, scenario) {
  const tail = document.querySelector("section[aria-labelledby=tail] tbody");
  const status = document.querySelector("#live");
  const news = document.querySelector("#news");
  const query = new URLSearchParams({ after });
  if (scenario) query.set("scenario", scenario);
  const source = new EventSource(`/live?${query}`);
  let count = 0;
  source.addEventListener("open", () => { if (status) status.textContent = "live"; });
  source.addEventListener("error", () => {
    const isOver = source.readyState === EventSource.CLOSED;
    if (status) status.textContent = isOver ? "not live, reload" : "not connected, trying again";
  });
  source.addEventListener("message", (event) => {
    const row = JSON.parse(event.data);
    count += 1;
    if (tail) {
      tail.prepend(tailRow(row, scenario, tail.parentElement.tHead.rows[0].cells));
      while (tail.rows.length > TAIL_ROWS) tail.lastElementChild.remove();
    }
    if (news) {
      news.textContent = `${count} new ${count === 1 ? "event" : "events"}, reload`;
      news.hidden = false;
    }
  });
  addEventListener("pagehide", () => source.close());
}

if (document.body.dataset.live) follow(document.body.dataset.live, document.body.dataset.scenario);
