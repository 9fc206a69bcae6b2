"""The look of tables and figures in HTML: rules as in a paper, digits of one width, names that stay in view.

Everything is below the class `paper`, so that a report may show a page within its own.
"""

STYLE = """\
.paper {
  color: #1b1b1b; text-align: left;
  font: 15px/1.45 system-ui, "Segoe UI", "Helvetica Neue", Arial, sans-serif;
}
.paper p { margin: 0 0 .5em; max-width: 52em; }
.paper figure { margin: 0 0 2.5em; }
.paper figcaption { margin: 0 0 .6em; color: inherit; font-size: 15px; line-height: 1.45; }
.paper .drawing figcaption { margin: 1em 0 0; }
.paper .drawing img {
  display: block; margin: 0; width: 100%; height: auto; max-width: min(1600px, calc(100vh * var(--ratio)));
}
.paper table {
  width: auto; margin: 0; table-layout: auto; border-collapse: separate; border-spacing: 0;
  border-top: 2px solid #1b1b1b; border-bottom: 2px solid #1b1b1b;
  font-size: 14px; line-height: 1.35; font-variant-numeric: tabular-nums;
}
.paper th, .paper td {
  padding: 4px 8px; border: 0; background: #fff; color: inherit;
  font-weight: normal; text-align: left; vertical-align: top; white-space: nowrap;
}
.paper th[scope=row] { min-width: 6em; max-width: 24em; overflow-wrap: anywhere; white-space: normal; }
.paper th.short { white-space: nowrap; }
.paper thead th {
  position: sticky; top: 0; z-index: 2; max-width: 12em; border-bottom: 1px solid #1b1b1b;
  font-weight: 600; overflow-wrap: break-word; vertical-align: bottom; white-space: normal;
}
.paper tbody th:first-child { position: sticky; left: 0; z-index: 1; }
.paper thead th:first-child { left: 0; z-index: 3; }
.paper .right { text-align: right; }
.paper .middle { text-align: center; }
.paper .number { padding-right: 3px; text-align: right; }
.paper .rest { padding-left: 3px; color: #4a4a4a; }
.paper .line { display: block; color: #4a4a4a; font-size: 12px; }
.paper .marks { position: absolute; }
.paper .stacked th, .paper .stacked td { padding: 3px 5px; }
.paper .stacked th[scope=row] { min-width: 4em; }
.paper .stacked .line { font-size: 11px; }
.paper .begins, .paper .stacked .begins { padding-left: 12px; }
.paper tr.heading th { padding-top: 10px; font-style: italic; }
.paper .again { color: #767676; }
.paper small { display: block; color: #5c5c5c; font-size: 12px; font-weight: normal; }
.paper tr.group > * { border-top: 1px solid #c8c8c8; }
.paper tbody tr:hover > * { background: #eef4fa; }
.paper .notes { margin-top: .8em; color: #3d3d3d; font-size: 13px; }
.paper .answers { color: inherit; text-decoration: underline dotted #7a9cb8; text-underline-offset: 3px; }
.paper .answers:hover, .paper .answers:focus-visible { color: #0060a8; text-decoration: underline; }
.paper .hint { color: #3d3d3d; font-size: 13px; }
.paper .files { color: #3d3d3d; font-size: 13px; }
.paper .files a { margin-right: 1em; color: #0060a8; }
"""
