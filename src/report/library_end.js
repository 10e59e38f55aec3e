  Object.assign(
    require("vega-dataflow").transforms,
    require("vega-transforms"),
    require("vega-view-transforms"),
    require("vega-encode")
  );
  window.vega = {
    View: require("vega-view").View,
    parse: require("vega-parser").parse,
    Warn: require("vega-util").Warn,
  };
})();
