// Builds the page from the JSON in #data: tabs, tables and charts. All text enters by textContent, so that nothing in a
// run's name or configuration is ever read as HTML.
(function () {
  "use strict";
  const data = JSON.parse(document.getElementById("data").textContent);
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const charts = [];  // {view, box} of the charts drawn so far

  function add(parent, tag, attributes, text) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) element.setAttribute(name, value);
    if (text !== undefined) element.textContent = text;
    parent.appendChild(element);
    return element;
  }

  // A dense table as one row per cell (src/report/table.h).
  function unroll(table) {
    const axes = table.axes, columns = Object.entries(table.columns), rows = [];
    const count = axes.reduce((product, axis) => product * axis[1].length, 1);
    for (let cell = 0; cell < count; ++cell) {
      const row = {};
      for (let a = axes.length - 1, rest = cell; a >= 0; --a) {
        const values = axes[a][1];
        row[axes[a][0]] = values[rest % values.length];
        rest = Math.floor(rest / values.length);
      }
      for (const [name, values] of columns) row[name] = values[cell];
      rows.push(row);
    }
    return rows;
  }

  function theme() {
    const style = getComputedStyle(document.documentElement);
    const ink = style.getPropertyValue("--ink").trim(), line = style.getPropertyValue("--line").trim();
    const muted = style.getPropertyValue("--muted").trim(), font = "system-ui, sans-serif";
    return {
      ink, muted,
      config: {
        background: "transparent",
        axis: { labelColor: ink, titleColor: ink, tickColor: line, domainColor: line, gridColor: line, labelFont: font,
          titleFont: font, labelFontSize: 11, titleFontSize: 12, titleFontWeight: "normal" },
        legend: { labelColor: ink, titleColor: ink, labelFont: font, titleFont: font, titleFontWeight: "normal" },
        text: { font },
      },
    };
  }

  const tip = document.getElementById("tip");
  function showTip(event, title, lines) {
    tip.replaceChildren();
    add(tip, "b", {}, title);
    for (const line of lines) add(tip, "div", {}, line);
    tip.hidden = false;
    const x = Math.min(event.clientX + 14, window.innerWidth - tip.offsetWidth - 4);
    const below = event.clientY + 18, fits = below + tip.offsetHeight < window.innerHeight;
    tip.style.left = Math.max(4, x) + "px";
    tip.style.top = (fits ? below : Math.max(4, event.clientY - tip.offsetHeight - 10)) + "px";
  }

  // A tooltip is a row of the chart, or "near": the points of all lines at the pointer.
  function tooltips(view) {
    view.tooltip((handler, event, item, value) => {
      if (!value) tip.hidden = true;
      else if (value !== "near") showTip(event, value.name, [value.series + ": " + value.text]);
      else
        view.runAsync().then(() => {
          const near = view.data("near");
          if (near.length > 0) showTip(event, near[0].name, near.map((row) => row.series + ": " + row.text));
        });
    });
  }

  function control(parent, view, c, changed) {
    const label = add(parent, "label");
    add(label, "span", {}, c.label);
    if (!c.slider) {
      const list = add(label, "select");
      c.options.forEach((option, i) => add(list, "option", { value: i }, option[1]));
      list.addEventListener("change", () => changed(view.signal(c.signal, c.options[list.value][0])));
      return;
    }
    const last = c.options.length - 1;
    const slider = add(label, "input", { type: "range", min: 0, max: last, step: 1, value: last });
    const shown = add(label, "output");
    const move = () => {
      const option = c.options[slider.value];
      slider.setAttribute("aria-valuetext", option[1]);
      shown.textContent = option[1];
      changed(view.signal(c.signal, option[0]));
    };
    slider.addEventListener("input", move);
    move();
  }

  // The rows that a chart shows, for readers without a pointer.
  function valuesTable(parent, view) {
    const details = add(parent, "details");
    add(details, "summary", {}, "Values");
    const box = add(details, "div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Values of the chart" });
    const fill = () => {
      if (!details.open) return;
      box.replaceChildren();
      const body = add(box, "table");
      for (const row of view.data("shown")) {
        const line = add(body, "tr");
        for (const text of [row.series, row.name, row.text]) add(line, "td", {}, text);
      }
    };
    details.addEventListener("toggle", fill);
    return fill;
  }

  // `room` is the width with axes, on which legends may depend; `width`, without them, depends on legends.
  function resize(view, box) {
    const room = Math.max(200, box.clientWidth);
    return view.width(room).signal("room", room);
  }

  function draw(chart, parent, title) {
    const colours = theme();
    const spec = JSON.parse(JSON.stringify(chart.spec));
    for (const signal of spec.signals) if (colours[signal.name]) signal.value = colours[signal.name];
    for (const [name, keys] of Object.entries(chart.data).reverse())
      spec.data.unshift({ name, values: keys.flatMap((key) => unroll(data.tables[key])) });
    const controls = add(parent, "div", { class: "controls" });
    const box = add(parent, "div", { class: "view" });
    spec.description = title;
    const view = new vega.View(vega.parse(spec, colours.config), { renderer: "svg", container: box, hover: true,
      logLevel: vega.Warn });
    resize(view, box);
    tooltips(view);
    const fill = valuesTable(parent, view);
    const changed = () => view.runAsync().then(fill);
    for (const c of chart.controls) control(controls, view, c, changed);
    view.run();
    charts.push({ view, box });
  }

  function figure(section, f) {
    const article = add(section, "article", { class: "figure" + (f.charts.length > 1 ? " wide" : ""), id: f.id });
    add(article, "h2", {}, f.title);
    if (f.note) add(article, "p", { class: "note" }, f.note);
    const grid = add(article, "div", { class: "charts" });
    for (const chart of f.charts) {
      const cell = add(grid, "div");
      if (f.charts.length > 1) add(cell, "h3", {}, chart.run);
      if (chart.missing) add(cell, "p", { class: "missing" }, chart.missing);
      else draw(chart, cell, f.title + (chart.run ? ", " + chart.run : ""));
    }
  }

  function comparison(section, id, title, rows) {
    const article = add(section, "article", { class: "figure wide", id });
    add(article, "h2", {}, title);
    const box = add(article, "div", { class: "scroll", style: "max-height: none", tabindex: 0, role: "region", "aria-label": title });
    const body = add(box, "table");
    const head = add(body, "tr");
    for (const text of ["", ...data.runs]) add(head, "th", { scope: "col" }, text);
    for (const [what, values, differs] of rows) {
      const row = add(body, "tr", differs ? { class: "differs" } : {});
      add(row, "th", { scope: "row" }, what);
      for (const value of values) add(row, "td", {}, value === null ? "-" : value);
    }
    return article;
  }

  function overview(section) {
    comparison(section, "facts", "Runs", data.facts);
    for (const v of data.verdicts) {
      const article = add(section, "article", { class: "figure verdict" });
      add(article, "h2", {}, v.run);
      add(article, "p", { class: v.worst }, v.verdict);
      for (const f of v.findings) {
        add(article, "p", { class: f.severity }, f.severity + ": " + f.what);
        add(article, "p", { class: "note" }, "cause: " + f.cause);
        add(article, "p", { class: "note" }, "fix: " + f.fix);
      }
      if (v.missing.length === 0) continue;
      add(article, "h3", {}, "Not in this report");
      const list = add(article, "ul", { class: "missing" });
      for (const text of v.missing) add(list, "li", {}, text);
    }
  }

  function configuration(section) {
    const article = comparison(section, "keys", "Configuration", data.configuration);
    if (data.runs.length < 2) return;
    const label = document.createElement("label");
    const box = add(label, "input", { type: "checkbox" });
    add(label, "span", {}, " only keys that differ");
    article.insertBefore(label, article.children[1]);
    box.addEventListener("change", () => {
      for (const row of article.querySelectorAll("tr:not(:first-child):not(.differs)")) row.hidden = box.checked;
    });
  }

  // Sections are drawn when they are first shown: a hidden chart has no width.
  const sections = [
    { id: "overview", title: "Overview", build: overview },
    ...data.sections.map((s) => ({ id: s.id, title: s.title, build: (e) => s.figures.forEach((f) => figure(e, f)) })),
    { id: "configuration", title: "Configuration", build: configuration },
  ];
  const tabs = document.getElementById("tabs"), main = document.getElementById("sections");
  for (const s of sections) {
    s.tab = add(tabs, "button", { role: "tab", id: "tab-" + s.id, "aria-controls": s.id, type: "button" }, s.title);
    s.panel = add(main, "section", { role: "tabpanel", id: s.id, "aria-labelledby": "tab-" + s.id });
    s.tab.addEventListener("click", () => select(s));
  }
  function select(chosen) {
    for (const s of sections) {
      s.panel.hidden = s !== chosen;
      s.tab.setAttribute("aria-selected", s === chosen);
      s.tab.tabIndex = s === chosen ? 0 : -1;
    }
    if (!chosen.drawn) chosen.build(chosen.panel);
    chosen.drawn = true;
    tip.hidden = true;
    fit();
  }
  tabs.addEventListener("keydown", (event) => {
    const at = sections.findIndex((s) => s.tab === document.activeElement), count = sections.length;
    const to = { ArrowRight: at + 1, ArrowLeft: at + count - 1, Home: 0, End: count - 1 }[event.key];
    if (at < 0 || to === undefined) return;
    event.preventDefault();
    sections[to % count].tab.focus();
    select(sections[to % count]);
  });

  function fit() {
    for (const { view, box } of charts)
      if (box.clientWidth > 0 && view.signal("room") !== Math.max(200, box.clientWidth)) resize(view, box).runAsync();
  }
  window.addEventListener("resize", fit);
  // Charts take their colours when they are drawn.
  dark.addEventListener("change", () => {
    charts.length = 0;
    for (const s of sections) {
      s.panel.replaceChildren();
      s.drawn = false;
    }
    select(sections.find((s) => !s.panel.hidden));
  });

  document.getElementById("runs").textContent = data.runs.join(" · ");
  document.getElementById("licence").textContent = document.getElementById("licence-text").textContent.trim();
  document.title = "Heddle report: " + data.runs.join(", ");
  select(sections[0]);
})();
