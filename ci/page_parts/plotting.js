// What the plots of a report are drawn with, as one global: `parts`.
export { axisBottom, axisLeft } from "d3-axis";
export { rgb } from "d3-color";
export { scaleBand, scaleLinear, scaleLog, scaleSymlog } from "d3-scale";
export { interpolateMagma } from "d3-scale-chromatic";
export { select } from "d3-selection";
export { line } from "d3-shape";
