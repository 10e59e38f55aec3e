// Files of this folder and of the chart library, embedded by cmake/HeddleAssets.cmake.
#pragma once

#include <string_view>

namespace heddle::report {

extern const std::string_view kPageHtml;  ///< with {{STYLE}}, {{LICENCE}}, {{DATA}}, {{LIBRARY}} and {{SCRIPT}}
extern const std::string_view kPageCss;
extern const std::string_view kLinesSpec, kHeatMapSpec, kBarsSpec;  ///< JSON
extern const std::string_view kPageScript;
extern const std::string_view kLibrary;         ///< Vega; sets the global `vega`
extern const std::string_view kLibraryLicence;  ///< text

}  // namespace heddle::report
