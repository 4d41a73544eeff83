"""The style of the page, with a light and a dark theme."""

from __future__ import annotations

STYLE = """
:root {
  color-scheme: light dark;
  --page: #f5f6f8; --card: #ffffff; --ink: #17212b; --soft: #5a6876; --line: #e4e8ed; --track: #edf0f4;
  --topic: #2c6fdb; --archive: #d9772a; --key: #7a55c7; --value: #14888c; --bad: #c62f2f; --good: #1d7f54;
  --bad-wash: #fdeeee; --good-wash: #e9f6f0;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #0e1318; --card: #161d25; --ink: #e7edf3; --soft: #97a5b3; --line: #29333e; --track: #212a34;
    --topic: #6aa1ff; --archive: #f0994d; --key: #b096f5; --value: #4fc3c7; --bad: #ff7a70; --good: #54c794;
    --bad-wash: #33191a; --good-wash: #12291f;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif;
}
main { max-width: 1140px; margin: 0 auto; padding: 40px 24px 64px; }
h1 { font-size: 28px; line-height: 1.2; margin: 0 0 6px; letter-spacing: -0.01em; overflow-wrap: anywhere; }
h2 { font-size: 20px; margin: 44px 0 14px; overflow-wrap: anywhere; }
h3 { font-size: 15px; margin: 0; }
p { margin: 0; }
.soft { color: var(--soft); }
.facts { color: var(--soft); font-size: 14px; overflow-wrap: anywhere; }
.facts span { white-space: nowrap; margin-right: 18px; }
.verdict {
  display: flex; gap: 14px; align-items: flex-start; margin: 24px 0 16px; padding: 16px 20px; border-radius: 12px;
  background: var(--good-wash); border: 1px solid color-mix(in srgb, var(--good) 35%, transparent);
}
.verdict.loss { background: var(--bad-wash); border-color: color-mix(in srgb, var(--bad) 40%, transparent); }
.verdict strong { color: var(--good); font-size: 17px; }
.verdict.loss strong { color: var(--bad); }
.verdict svg { flex: none; width: 26px; height: 26px; margin-top: 1px; }
.verdict .disc { fill: var(--good); } .verdict.loss .disc { fill: var(--bad); }
.verdict .sign { stroke: var(--card); stroke-width: 2.6; fill: none; stroke-linecap: round; stroke-linejoin: round; }
.verdict ul { margin: 6px 0 0; padding-left: 18px; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(168px, 1fr)); gap: 12px; }
.tile, .card { background: var(--card); border: 1px solid var(--line); border-radius: 12px; }
.tile { padding: 14px 16px; }
.tile .name { color: var(--soft); font-size: 13px; }
.tile .value { font-size: 23px; font-weight: 600; letter-spacing: -0.01em; line-height: 1.35; white-space: nowrap; }
.tile .more { color: var(--soft); font-size: 13px; }
.card.remarks { margin: 14px 0 0; padding: 12px 20px 12px 38px; }
.remarks li { margin: 3px 0; overflow-wrap: anywhere; }
.grid { display: grid; grid-template-columns: repeat(2, minmax(0, 1fr)); gap: 14px; }
.card { padding: 16px 18px; margin-bottom: 14px; }
.grid .card { margin-bottom: 0; }
.grid + .card { margin-top: 14px; }
.card.full { grid-column: 1 / -1; }
.card header { display: flex; flex-wrap: wrap; gap: 2px 16px; align-items: baseline; margin-bottom: 10px; }
.card header p { color: var(--soft); font-size: 13px; }
.legend { margin-left: auto; display: flex; gap: 14px; font-size: 13px; color: var(--soft); }
.dot { display: inline-block; width: 10px; height: 10px; border-radius: 3px; margin-right: 6px; }
.dot.topic { background: var(--topic); } .dot.archive { background: var(--archive); }
.dot.key { background: var(--key); }
.dot.value { background: var(--value); } .dot.bad { background: var(--bad); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: 14px; font-variant-numeric: tabular-nums; }
th, td { padding: 6px 12px; text-align: right; border-bottom: 1px solid var(--line); white-space: nowrap; }
th { color: var(--soft); font-weight: 500; font-size: 13px; vertical-align: bottom; }
th:first-child, td:first-child { text-align: left; padding-left: 0; }
th:last-child, td:last-child { padding-right: 0; }
tbody tr:last-child td { border-bottom: 0; }
td.bad { color: var(--bad); font-weight: 600; }
td.none { color: var(--soft); }
.plot { display: block; width: 100%; height: auto; font-family: inherit; font-variant-numeric: tabular-nums; }
.plot text { fill: var(--ink); font-size: 12.5px; }
.plot .tick { fill: var(--soft); font-size: 12px; }
.plot .end { fill: var(--soft); paint-order: stroke; stroke: var(--card); stroke-width: 3px; stroke-linejoin: round; }
.plot .grid { stroke: var(--line); stroke-width: 1; }
.plot .axis { stroke: color-mix(in srgb, var(--soft) 55%, transparent); stroke-width: 1; }
.plot .mean { stroke: var(--soft); stroke-width: 1; stroke-dasharray: 3 3; }
.plot .even { stroke: var(--soft); stroke-width: 1.2; stroke-dasharray: 4 4; }
.plot .track { fill: var(--track); }
.plot .bar.topic { fill: var(--topic); } .plot .bar.archive { fill: var(--archive); }
.plot .bar.key { fill: var(--key); } .plot .bar.value { fill: var(--value); }
.plot .bar.bad { fill: var(--bad); }
.plot .area { fill-opacity: 0.16; stroke: none; }
.plot .area.topic { fill: var(--topic); } .plot .area.archive { fill: var(--archive); }
.plot .edge { fill: none; stroke-width: 1.8; stroke-linejoin: round; }
.plot .edge.topic { stroke: var(--topic); } .plot .edge.archive { stroke: var(--archive); }
.plot .dashed { stroke-dasharray: 5 4; }
.plot .hover { fill: transparent; }
.plot .hover:hover { fill: var(--ink); fill-opacity: 0.07; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 6px 20px; margin: 0; font-size: 14px; }
dt { font-weight: 600; } dd { margin: 0; color: var(--soft); }
footer { margin-top: 40px; color: var(--soft); font-size: 13px; }
@media (max-width: 760px) {
  main { padding: 24px 14px 48px; }
  .grid { grid-template-columns: minmax(0, 1fr); }
  .plot.wide { min-width: 720px; }
  dl { grid-template-columns: 1fr; } dd { margin-bottom: 6px; }
}
@media print { body { background: #fff; } .card, .tile { break-inside: avoid; } }
"""
