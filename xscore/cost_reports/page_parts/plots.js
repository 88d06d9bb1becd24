// The plots of a report: d3's scales and axes, drawn as SVG from the block of JSON. It writes no markup.

{
  const figures = JSON.parse(document.getElementById("plots").textContent);
  const LEFT = 46, RIGHT = 18, TITLE = 23, LABELS = 34, ROW = 16, WIDEST_BAR = 26;
  const LETTER = 6.3; // pixels
  const DAY_S = 86400;
  const COMPACT = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 2 });

  const FORMS = {
    count: () => (value) => COMPACT.format(value).toLowerCase(),
    share: (scale, count) => scale.tickFormat(count, "%"),
    score: (scale, count) => scale.tickFormat(count, ".1f"),
    signed: (scale, count) => scale.tickFormat(count, "+.2f"),
    seconds: () => (value) => (value < 1 ? `${Number((value * 1000).toPrecision(3))} ms` : `${Number(value.toPrecision(3))} s`),
    // Tenths of a dollar are written with cents.
    dollars: (scale, count) => (value) => (value ? scale.tickFormat(count, "$,f")(value).replace(/(\.\d)$/, "$10") : "$0"),
  };

  function continuous(axis, values, range) {
    const low = axis.low ?? Math.min(0, ...values);
    const high = axis.high ?? Math.max(...values);
    if (axis.scale === "log") {
      const powers = [Math.max(low, Math.min(...values)), Math.max(high, low * 10)].map(Math.log10);
      const ends = [Math.floor(powers[0] + 1e-9), Math.ceil(powers[1] - 1e-9)];
      if (ends[0] === ends[1]) ends[1] += 1;
      return parts.scaleLog().domain(ends.map((power) => 10 ** power)).range(range);
    }
    if (axis.scale === "symlog") return parts.scaleSymlog().constant(1).domain([0, 10 ** Math.max(1, Math.ceil(Math.log10(high + 1)))]).range(range);
    const scale = parts.scaleLinear().domain([low, high > low ? high : low + 1]).range(range);
    return axis.high === null ? scale.nice(4) : scale;
  }

  // A logarithmic axis is marked at powers of ten; at every second where all would touch each other.
  function marksOf(axis, scale, count) {
    if (axis.scale === "linear") return scale.ticks(count);
    const [low, high] = scale.domain();
    const first = axis.scale === "log" ? Math.round(Math.log10(low)) : 1;
    const last = Math.round(Math.log10(high));
    const step = Math.ceil((last - first + 1) / Math.max(2, count));
    const marks = axis.scale === "log" ? [] : [0];
    for (let power = first; power <= last; power += step) marks.push(10 ** power);
    return marks;
  }

  function drawAxis(group, make, axis, scale, count) {
    const marks = marksOf(axis, scale, count);
    return group.call(make(scale).tickValues(marks).tickSize(4).tickFormat(FORMS[axis.form](scale, count)));
  }

  // When steps began: by the clock within a day, otherwise by days or by months; few enough to be read.
  function timeFormat(times) {
    const long = times.at(-1) - times[0];
    const form = long < 1.5 * DAY_S ? { hour: "2-digit", minute: "2-digit" } : long < 300 * DAY_S ? { day: "numeric", month: "short" } : { month: "short", year: "numeric" };
    const format = new Intl.DateTimeFormat("en-GB", { timeZone: "UTC", ...form });
    return { format: (seconds) => format.format(seconds * 1000), isClock: "hour" in form };
  }

  function drawTimes(group, panel, band, wide) {
    const { times } = panel;
    const { format, isClock } = timeFormat(times);
    const most = Math.max(2, Math.floor(wide / 95));
    const places = [...new Set(Array.from({ length: most }, (_, at) => Math.round((at * (times.length - 1)) / (most - 1))))];
    const shown = places.filter((place, at) => at === 0 || format(times[place]) !== format(times[places[at - 1]]));
    group.call(parts.axisBottom(band).tickValues(panel.x_title ? shown : []).tickSize(4).tickPadding(6).tickFormat((place) => format(times[place])));
    if (!panel.x_title) return "";
    if (!isClock) return panel.x_title;
    const day = new Intl.DateTimeFormat("en-GB", { timeZone: "UTC", day: "numeric", month: "short", year: "numeric" });
    return panel.x_title.replace(",", ` from ${day.format(times[0] * 1000)},`);
  }

  function drawPanel(svg, panel, top, wide) {
    const group = svg.append("g").attr("class", "drawn").attr("transform", `translate(0,${top})`);
    const names = panel.spreads.map((spread) => spread[0].length);
    const left = names.length ? Math.min(wide * 0.45, 12 + LETTER * Math.max(...names)) : LEFT;
    const tall = panel.spreads.length ? ROW * panel.spreads.length + 4 : panel.tall;
    const range = [left, wide - (panel.times.length ? 30 : RIGHT)];
    const bottom = TITLE + tall;
    const steps = panel.stacks.length || panel.lines[0]?.[1].length || 0;
    const bands = parts.scaleBand().domain(Array.from({ length: steps }, (_, at) => at)).range(range).paddingInner(0.22).paddingOuter(0.11);
    const across = panel.x && continuous(panel.x, panel.spreads.flatMap((spread) => spread.slice(3, 7).filter((value) => value !== null)).concat(panel.x.high ?? []), range);
    const grid = group.append("g").attr("class", "grid");
    if (panel.y) drawHeights(group, grid, panel, { bands, across, range, bottom, tall });
    if (panel.spreads.length) drawSpreads(group, grid, panel, { across, left, bottom, wide });
    const below = group.append("g").attr("class", "axis-of").attr("transform", `translate(0,${bottom})`);
    let title = panel.x?.title ?? panel.x_title;
    if (panel.x) drawAxis(below, (scale) => parts.axisBottom(scale).tickPadding(6), panel.x, across, Math.max(2, Math.floor((range[1] - range[0]) / 70)));
    else if (panel.times.length) title = drawTimes(below, panel, bands, wide);
    if (title) group.append("text").attr("class", "axis").attr("x", wide - 4).attr("y", bottom + LABELS - 3).attr("text-anchor", "end").text(title);
    if (panel.threshold !== null) drawThreshold(group, panel, across(panel.threshold), range, bottom);
    return top + bottom + (title ? LABELS + 4 : 14);
  }

  function drawHeights(group, grid, panel, { bands, across, range, bottom, tall }) {
    const values = [...panel.stacks.flatMap(([, bar]) => bar.flatMap(([, low, high]) => [low, high])), ...panel.lines.flatMap(([, heights]) => heights.filter((height) => height !== null))];
    const up = continuous(panel.y, values.length ? values : [1], [bottom, bottom - tall]);
    const marks = Math.max(2, Math.round(tall / 36));
    for (const mark of marksOf(panel.y, up, marks)) grid.append("line").attr("x1", range[0]).attr("x2", range[1]).attr("y1", up(mark)).attr("y2", up(mark));
    drawAxis(group.append("g").attr("class", "axis-of bare").attr("transform", `translate(${range[0]},0)`), parts.axisLeft, panel.y, up, marks);
    if (panel.y.title) group.append("text").attr("class", "axis").attr("x", 2).attr("y", TITLE - 10).text(panel.y.title);
    const room = across ? (range[1] - range[0]) / panel.stacks.length : bands.bandwidth();
    const width = across ? Math.max(1, room - 1.5) : Math.min(room, WIDEST_BAR);
    panel.stacks.forEach(([hint, bar], at) => {
      const x = across ? range[0] + at * room + 0.75 : bands(at) + (room - width) / 2;
      const stack = group.append("g");
      stack.append("title").text(hint);
      for (const [color, low, high] of bar) {
        if (high <= low) continue;
        // A bar that means something is at least half a pixel.
        const height = Math.max(0.5, up(low) - up(high));
        const rect = stack.append("rect").attr("x", x).attr("y", up(low) - height).attr("width", width).attr("height", height);
        if (color !== "ramp") rect.attr("class", color);
        else rect.style("fill", scoreColor((at + 0.5) / panel.stacks.length, panel.threshold)).style("stroke", "var(--c6)");
      }
    });
    for (const [classes, heights] of panel.lines) drawLine(group, classes, heights, bands, up);
  }

  function scoreColor(score, cut) {
    const place = cut === null ? score : parts.scaleLinear().domain([0, Math.min(Math.max(cut, 0.001), 0.999), 1]).range([0, CUT_AT, 1])(score);
    return rampColor(place, isDark()).formatHex();
  }

  function drawLine(group, classes, heights, bands, up) {
    const middle = (at) => bands(at) + bands.bandwidth() / 2;
    const drawn = group.append("g").attr("class", `line ${classes}`);
    drawn.append("path").attr("d", parts.line().defined((height) => height !== null).x((_, at) => middle(at)).y(up)(heights));
    heights.forEach((height, at) => {
      if (height !== null) drawn.append("circle").attr("cx", middle(at)).attr("cy", up(height)).attr("r", heights.length === 1 ? 4 : 2.2);
    });
  }

  function drawSpreads(group, grid, panel, { across, left, bottom, wide }) {
    for (const mark of marksOf(panel.x, across, Math.max(2, Math.floor((wide - left) / 70)))) grid.append("line").attr("x1", across(mark)).attr("x2", across(mark)).attr("y1", TITLE - 4).attr("y2", bottom);
    panel.spreads.forEach(([name, hint, color, low, middle, high, before], row) => {
      const y = TITLE + ROW * (row + 0.5);
      const most = Math.floor((left - 10) / LETTER);
      const label = name.length > most ? name.slice(0, most - 1) + "…" : name;
      group.append("text").attr("x", left - 6).attr("y", y + 4).attr("text-anchor", "end").text(label);
      const spread = group.append("g").attr("class", `spread ${color}`);
      spread.append("title").text(hint);
      spread.append("line").attr("x1", across(low)).attr("x2", across(high)).attr("y1", y).attr("y2", y);
      if (before !== null) spread.append("line").attr("class", "before").attr("x1", across(before)).attr("x2", across(before)).attr("y1", y - 6).attr("y2", y + 6);
      spread.append("path").attr("d", `M${across(high)} ${y - 3.6}l3.6 3.6-3.6 3.6-3.6-3.6z`);
      spread.append("rect").attr("x", across(middle) - 2.4).attr("y", y - 2.4).attr("width", 4.8).attr("height", 4.8);
      spread.append("circle").attr("cx", across(low)).attr("cy", y).attr("r", 2.8);
    });
  }

  function drawThreshold(group, panel, x, range, bottom) {
    group.append("line").attr("class", "threshold").attr("x1", x).attr("x2", x).attr("y1", TITLE - 6).attr("y2", bottom);
    if (!panel.threshold_title) return;
    const isLeft = x > (range[0] + range[1]) / 2;
    group.append("text").attr("class", "strong").attr("x", x + (isLeft ? -4 : 4)).attr("y", panel.y?.title ? TITLE + 6 : TITLE - 8).attr("text-anchor", isLeft ? "end" : "start").text(panel.threshold_title);
  }

  function drawAll() {
    document.querySelectorAll("svg.plot").forEach((element, at) => {
      const svg = parts.select(element);
      const wide = Math.max(260, element.clientWidth || element.parentElement.clientWidth);
      svg.selectAll(".drawn").remove();
      let top = 0;
      for (const panel of figures[at]) top = drawPanel(svg, panel, top, wide);
      svg.attr("viewBox", `0 0 ${wide} ${top}`);
    });
  }
  drawAll();
  let settling = 0;
  addEventListener("resize", () => { clearTimeout(settling); settling = setTimeout(drawAll, 60); });
  for (const media of ["(prefers-color-scheme: dark)", "print"]) matchMedia(media).addEventListener("change", drawAll);
  document.getElementById("theme").addEventListener("click", drawAll);
}
