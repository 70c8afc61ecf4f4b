//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// The plan as one page: its JSON and the script that draws it (Page/), in one file.
//===----------------------------------------------------------------------------------------------------------===//
#include "Parts.h"
#include "intarsia/Version.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

using namespace llvm;

namespace intarsia::plan {

/// Page.html with its style, libraries and script, as CMake put them together.
static constexpr char page[] =
#include "Page.inc"
    ;

void printPage(raw_ostream &out, const PlanReport &report) {
  auto [before, rest] = StringRef(page).split("{{version}}");
  auto [head, afterText] = rest.split("{{text}}");
  auto [between, after] = afterText.split("{{plan}}");
  std::string text;
  raw_string_ostream printed(text);
  printPlanOf(printed, report);
  printExplanations(printed, report);
  out << before << INTARSIA_VERSION << head;
  printHTMLEscaped(text, out);
  out << between;
  // In JSON '<' is in strings only. Escaped there, no name can end the script element or begin a comment in it.
  for (char c : formatv("{0}", json::Value(jsonOf(report))).str())
    if (c == '<')
      out << "\\u003c";
    else
      out << c;
  out << after;
}

} // namespace intarsia::plan
