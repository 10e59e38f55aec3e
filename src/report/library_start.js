// Modules of Vega that find each other: Debian has no bundle of them.
(function () {
  "use strict";
  const makers = {}, made = {};
  function define(name, maker) {
    makers[name] = maker;
  }
  function require(name) {
    if (name === "vega-selections") name = "vega-selection";  // its file has another name
    if (!made[name]) {
      const module = { exports: {} };
      made[name] = module.exports;
      makers[name].call(window, module, module.exports, require);
    }
    return made[name];
  }
