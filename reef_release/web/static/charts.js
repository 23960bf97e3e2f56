// Charts to look closer at: the pictures that the server drew, drawn again by uPlot with a cursor.
// Without this script, or without uPlot, the server's pictures stay.

const HEIGHT = 240;
const WHOLE = Array.from({ length: 24 }, (_, index) => [1, 2, 5][index % 3] * 10 ** Math.floor(index / 3));
const HINT = "Point at the chart to read its values.";
const DASHES = [[], [6, 3], [2, 3], [9, 3, 2, 3]];

function colour(name) {
  // A custom property may hold light-dark(); only a computed colour says which of the two it is.
  const probe = document.createElement("span");
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

function markPlugin(marks, strokes) {
  return {
    hooks: {
      draw: (plot) => {
        const { ctx, bbox } = plot;
        ctx.save();
        for (const mark of marks) {
          const x = Math.round(plot.valToPos(mark.place, "x", true));
          if (x < bbox.left || x > bbox.left + bbox.width) continue;
          ctx.strokeStyle = strokes[mark.kind];
          ctx.setLineDash(mark.kind === "rollback" ? [] : [2, 3]);
          ctx.beginPath();
          ctx.moveTo(x, bbox.top);
          ctx.lineTo(x, bbox.top + bbox.height);
          ctx.stroke();
        }
        ctx.restore();
      },
    },
  };
}

function said(chart, index) {
  if (index === null || index === undefined) return HINT;
  const [place, ...values] = chart.columns.map((column) => column[index]);
  const known = values.map((value, number) => `${chart.names[number]} ${value === null ? "–" : Number(value.toPrecision(6))}`);
  return `at ${place}: ${known.join(", ")}`;
}

function draw(figure, place, readout) {
  const chart = JSON.parse(figure.dataset.chart);
  const muted = colour("--muted");
  const line = colour("--line");
  const axis = { stroke: muted, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1 }, font: "11px system-ui, sans-serif" };
  const options = {
    width: Math.max(place.clientWidth, 200),
    height: HEIGHT,
    scales: { x: { time: false }, y: { range: () => chart.range } },
    axes: [{ ...axis, incrs: WHOLE, label: chart.x, labelSize: 18, labelFont: "11px system-ui, sans-serif" }, { ...axis, size: 56 }],
    legend: { show: false },
    series: [
      {},
      ...chart.names.map((label, index) => ({
        label,
        stroke: colour(`--series-${index % DASHES.length}`),
        dash: DASHES[index % DASHES.length],
        width: 2,
        spanGaps: false,
      })),
    ],
    hooks: { setCursor: [(plot) => { readout.textContent = said(chart, plot.cursor.idx); }] },
    plugins: [markPlugin(chart.marks, { promotion: colour("--strong-line"), rollback: colour("--warn") })],
  };
  place.replaceChildren();
  return new uPlot(options, chart.columns, place);
}

function take(figure) {
  const picture = figure.querySelector(":scope > svg");
  const place = document.createElement("div");
  place.className = "drawn";
  // What uPlot draws says the same as the picture, which readers of the page keep.
  place.setAttribute("aria-hidden", "true");
  const readout = document.createElement("p");
  readout.className = "readout";
  readout.setAttribute("aria-hidden", "true");
  readout.textContent = HINT;
  figure.append(place, readout);
  let plot = draw(figure, place, readout);
  picture.classList.add("visually-hidden");
  new ResizeObserver(() => plot.setSize({ width: Math.max(place.clientWidth, 200), height: HEIGHT })).observe(figure);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { plot = draw(figure, place, readout); });
}

if (typeof uPlot === "function") {
  for (const figure of document.querySelectorAll("figure[data-chart]")) take(figure);
}
