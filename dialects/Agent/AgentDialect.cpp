//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/Agent/Agent.h"

#include "dialects/Fleet/Figures.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"
#include <cmath>

using namespace mlir;
using namespace intarsia;
using namespace intarsia::agent;

#include "dialects/Agent/AgentDialect.cpp.inc"
#include "dialects/Agent/AgentEnums.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/Agent/AgentAttrs.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "dialects/Agent/AgentInterfaces.cpp.inc"
#include "dialects/Agent/AgentTypes.cpp.inc"

void AgentDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/Agent/AgentAttrs.cpp.inc"
      >();
  addTypes<
#define GET_TYPEDEF_LIST
#include "dialects/Agent/AgentTypes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/Agent/AgentOps.cpp.inc"
      >();
}

Unit agent::unitOf(Type type) {
  return llvm::TypeSwitch<Type, Unit>(type)
      .Case<ImageType>([](auto) { return Unit::Pixels; })
      .Case<AudioType, VideoType>([](auto) { return Unit::Seconds; })
      .Case<DataType>([](auto) { return Unit::Bytes; })
      .Case<VectorType>([](auto) { return Unit::Vectors; })
      .Default(Unit::Tokens);
}

//===-- Amounts -----------------------------------------------------------------------------------------------===//

/// Returns the plausible range of a request's amount in a unit. The bounds are wide: they find mistaken units, not
/// unusual requests.
static FigureRange rangeOf(Unit unit) {
  switch (unit) {
  case Unit::Tokens:
    return {0.01, 1e8, "are these characters or bytes?", true};
  case Unit::Pixels:
    return {64, 1e11, "is it the number of pixels, width times height, of all images?", true};
  case Unit::Seconds:
    return {0.001, 1e6, "is it in seconds, not milliseconds?", true};
  case Unit::Bytes:
    return {1, 1e14, "is it in bytes?", true};
  case Unit::Vectors:
    return {0.01, 1e9, "is it a number of vectors?", true};
  case Unit::Milliseconds:
    return {0.001, 8.64e7, "is it in milliseconds, not seconds or microseconds?", true};
  case Unit::Count:
    return {1, 1e6, "what may not happen at all belongs into an agent.branch"};
  }
  llvm_unreachable("each unit is listed");
}

Attribute AmountAttr::parse(AsmParser &parser, Type) {
  SMLoc location = parser.getCurrentLocation();
  FloatAttr mean, max;
  SmallVector<double> percents, values;
  if (parser.parseLess())
    return {};
  StringRef word = stringifyUnit(Unit::Count);
  if (failed(parser.parseOptionalKeyword(&word))) {
    if (parseFigure(parser, mean))
      return {};
    (void)parser.parseOptionalKeyword(&word);
  }
  std::optional<Unit> unit = symbolizeUnit(word);
  if (!unit) {
    SmallVector<StringRef> units;
    for (unsigned index = 0; index <= getMaxEnumValForUnit(); ++index)
      units.push_back(stringifyUnit(static_cast<Unit>(index)));
    parser.emitError(location) << "unit '" << word << "' is unknown" << nearestNames(word, units);
    return {};
  }
  while (succeeded(parser.parseOptionalComma())) {
    SMLoc keyLocation = parser.getCurrentLocation();
    StringRef key;
    FloatAttr figure;
    if (parser.parseKeyword(&key) || parser.parseEqual() || parseFigure(parser, figure))
      return {};
    double percent;
    if (key == "max" && !max) {
      max = figure;
    } else if (key.starts_with("p") && !key.drop_front().getAsDouble(percent)) {
      percents.push_back(percent);
      values.push_back(figure.getValueAsDouble());
    } else {
      parser.emitError(keyLocation) << "'" << key << "' is " << (key == "max" ? "given twice" : "unknown here")
                                    << "; known are percentiles, such as p50 or p95, and max";
      return {};
    }
  }
  if (parser.parseGreater())
    return {};
  MLIRContext *context = parser.getContext();
  return parser.getChecked<AmountAttr>(
      location, context, mean, *unit,
      percents.empty() ? DenseF64ArrayAttr() : DenseF64ArrayAttr::get(context, percents),
      values.empty() ? DenseF64ArrayAttr() : DenseF64ArrayAttr::get(context, values), max);
}

void AmountAttr::print(AsmPrinter &printer) const {
  printer << '<';
  if (getMean())
    printer << figureText(getMean().getValueAsDouble());
  if (!getMean() || getUnit() != Unit::Count)
    printer << (getMean() ? " " : "") << stringifyUnit(getUnit());
  if (getPercents())
    for (auto [percent, value] : llvm::zip_equal(getPercents().asArrayRef(), getValues().asArrayRef()))
      printer << ", p" << figureText(percent) << " = " << figureText(value);
  if (getMax())
    printer << ", max = " << figureText(getMax().getValueAsDouble());
  printer << '>';
}

static std::vector<Amount::Percentile> percentilesOf(DenseF64ArrayAttr percents, DenseF64ArrayAttr values) {
  std::vector<Amount::Percentile> result;
  if (percents)
    for (auto [percent, value] : llvm::zip_equal(percents.asArrayRef(), values.asArrayRef()))
      result.push_back({percent, value});
  return result;
}

static std::optional<double> valueOf(FloatAttr figure) {
  return figure ? std::optional(figure.getValueAsDouble()) : std::nullopt;
}

LogicalResult AmountAttr::verify(EmitError emitError, FloatAttr mean, Unit unit, DenseF64ArrayAttr percents,
                                 DenseF64ArrayAttr values, FloatAttr max) {
  StringRef name = stringifyUnit(unit);
  FigureRange range = rangeOf(unit);
  if (failed(verifyFigure(emitError, name + " of an amount", mean, range)) ||
      failed(verifyFigure(emitError, "max " + name, max, range)))
    return failure();
  if (!percents != !values || (percents && percents.size() != values.size()))
    return emitError() << "an amount has " << (percents ? percents.size() : 0) << " percentiles and "
                       << (values ? values.size() : 0) << " values";
  std::vector<Amount::Percentile> percentiles = percentilesOf(percents, values);
  double lastPercent = 0, lastValue = 0;
  for (auto [percent, value] : percentiles) {
    std::string which = "p" + figureText(percent);
    if (!(percent > 0 && percent < 100))
      return emitError() << which << " is no percentile, must be between 0 and 100";
    if (failed(verifyFigure(emitError, which + " of " + name, value, range)))
      return failure();
    if (value == 0)
      return emitError() << which << " is 0, must be positive; put what may not happen into a branch";
    if (percent <= lastPercent || value < lastValue)
      return emitError() << which << " = " << figureText(value) << " comes after p" << figureText(lastPercent) << " = "
                         << figureText(lastValue) << ", percentiles and their values must grow";
    if (max && value > max.getValueAsDouble())
      return emitError() << which << " is " << figureText(value) << ", max only " << figureText(max.getValueAsDouble());
    lastPercent = percent;
    lastValue = value;
  }
  if (!mean && percentiles.size() < 2)
    return emitError() << "an amount has neither a mean nor two percentiles: write <400 " << name << "> or <" << name
                       << ", p50 = 300, p95 = 900>";
  if (!mean)
    return success();
  double meanValue = mean.getValueAsDouble();
  if (max && meanValue > max.getValueAsDouble())
    return emitError() << "mean is " << figureText(meanValue) << ", max only " << figureText(max.getValueAsDouble());
  if (percentiles.size() > 1)
    return emitError() << "an amount has a mean and " << percentiles.size()
                       << " percentiles, must have a mean and one, or percentiles alone";
  if (percentiles.size() == 1) {
    auto [percent, value] = percentiles.front();
    if (percent >= 75 && value < meanValue)
      return emitError() << "p" << figureText(percent) << " is " << figureText(value) << ", less than the mean "
                         << figureText(meanValue);
    if (!Amount::fromMeanAndPercentile(meanValue, percentiles.front(), valueOf(max)))
      return emitError() << "p" << figureText(percent) << " is " << figureText(value) << " with a mean of "
                         << figureText(meanValue)
                         << ", which no lognormal has (its 95th percentile is at most 3.87 times the mean); give "
                            "percentiles instead, such as p50 and p95";
  }
  return success();
}

AmountAttr AmountAttr::get(MLIRContext *context, double mean, Unit unit) {
  return AmountAttr::get(context, FloatAttr::get(Float64Type::get(context), mean), unit, DenseF64ArrayAttr(),
                         DenseF64ArrayAttr(), FloatAttr());
}

Amount AmountAttr::getAmount() const {
  std::vector<Amount::Percentile> percentiles = percentilesOf(getPercents(), getValues());
  if (!getMean())
    return Amount::fromPercentiles(percentiles, valueOf(getMax()));
  double mean = getMean().getValueAsDouble();
  if (percentiles.empty())
    return Amount::constant(mean);
  return *Amount::fromMeanAndPercentile(mean, percentiles.front(), valueOf(getMax()));
}

//===-- Promises and work -------------------------------------------------------------------------------------===//

Attribute SlaAttr::parse(AsmParser &parser, Type) {
  SMLoc location = parser.getCurrentLocation();
  FloatAttr percent, latencyMs, ttftMs, tbtMs, requestsPerSecond;
  auto parseOne = [&]() -> ParseResult {
    SMLoc keyLocation = parser.getCurrentLocation();
    StringRef key;
    FloatAttr figure;
    if (parser.parseKeyword(&key) || parser.parseEqual() || parseFigure(parser, figure))
      return failure();
    FloatAttr *slot = key == "ttft_ms"               ? &ttftMs
                      : key == "tbt_ms"              ? &tbtMs
                      : key == "requests_per_second" ? &requestsPerSecond
                                                     : nullptr;
    double number;
    StringRef digits = key;
    if (!slot && digits.consume_front("p") && digits.consume_back("_ms") && !digits.getAsDouble(number)) {
      slot = &latencyMs;
      if (!latencyMs)
        percent = parser.getBuilder().getF64FloatAttr(number);
    }
    if (!slot)
      return parser.emitError(keyLocation)
             << "'" << key << "' is unknown here"
             << nearestNames(key, {"p50_ms", "p95_ms", "p99_ms", "ttft_ms", "tbt_ms", "requests_per_second"});
    if (*slot)
      return parser.emitError(keyLocation) << "'" << key << "' is given twice";
    *slot = figure;
    return success();
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::LessGreater, parseOne))
    return {};
  return parser.getChecked<SlaAttr>(location, parser.getContext(), percent, latencyMs, ttftMs, tbtMs,
                                    requestsPerSecond);
}

void SlaAttr::print(AsmPrinter &printer) const {
  std::string latency = getPercent() ? "p" + figureText(getPercent().getValueAsDouble()) + "_ms" : "";
  printer << '<';
  printFigures(printer.getStream(), {{latency, getLatencyMs()},
                                     {"ttft_ms", getTtftMs()},
                                     {"tbt_ms", getTbtMs()},
                                     {"requests_per_second", getRequestsPerSecond()}});
  printer << '>';
}

LogicalResult SlaAttr::verify(EmitError emitError, FloatAttr percent, FloatAttr latencyMs, FloatAttr ttftMs,
                              FloatAttr tbtMs, FloatAttr requestsPerSecond) {
  if (!percent != !latencyMs)
    return emitError() << "a promise of latency has a percentile and milliseconds, such as p95_ms = 3000";
  if (percent && !(percent.getValueAsDouble() > 0 && percent.getValueAsDouble() < 100))
    return emitError() << "p" << figureText(percent.getValueAsDouble())
                       << "_ms is no percentile, must be between 0 and 100";
  const char *seconds = "is it in milliseconds, not seconds?";
  if (failed(verifyFigure(emitError, "latency in milliseconds", latencyMs, {1, 8.64e7, seconds})) ||
      failed(verifyFigure(emitError, "ttft_ms", ttftMs, {0.1, 1e6, seconds})) ||
      failed(verifyFigure(emitError, "tbt_ms", tbtMs, {0.05, 1e4, seconds})))
    return failure();
  return verifyFigure(emitError, "requests_per_second", requestsPerSecond,
                      {1e-6, 1e6, "is it of one second, and of this graph?"});
}

Attribute WorkAttr::parse(AsmParser &parser, Type) {
  SMLoc location = parser.getCurrentLocation();
  FloatAttr executions, probability;
  if (parseFigures(parser, {{"executions", &executions}, {"probability", &probability}}))
    return {};
  return parser.getChecked<WorkAttr>(location, parser.getContext(), executions, probability);
}

void WorkAttr::print(AsmPrinter &printer) const {
  printer << '<';
  printFigures(printer.getStream(), {{"executions", getExecutions()}, {"probability", getProbability()}});
  printer << '>';
}

LogicalResult WorkAttr::verify(EmitError emitError, FloatAttr executions, FloatAttr probability) {
  if (!executions || !probability)
    return emitError() << "work has no " << (executions ? "probability" : "executions");
  if (failed(verifyFigure(emitError, "executions", executions, {1e-9, 1e9, "is it of one request?", true})) ||
      failed(verifyFigure(emitError, "probability", probability, {1e-12, 1, "is it a fraction?", true})))
    return failure();
  // The probability of at least one execution is at most the expected number.
  if (probability.getValueAsDouble() > executions.getValueAsDouble() * (1 + 1e-9))
    return emitError() << "probability " << figureText(probability.getValueAsDouble()) << " is above the "
                       << figureText(executions.getValueAsDouble()) << " executions, which no distribution has";
  return success();
}

//===-- Attributes of arguments -------------------------------------------------------------------------------===//

LogicalResult AgentDialect::verifyRegionArgAttribute(Operation *op, unsigned, unsigned argIndex,
                                                     NamedAttribute attribute) {
  std::string where = "argument " + std::to_string(argIndex);
  if (attribute.getName() != "agent.size")
    return op->emitOpError() << "argument attribute " << attribute.getName().getValue() << " of " << where
                             << " is unknown; known is agent.size";
  auto graph = dyn_cast<GraphOp>(op);
  if (!graph)
    return op->emitOpError() << "agent.size of " << where << " stands on a '" << op->getName()
                             << "', must be on an 'agent.graph'";
  auto amount = dyn_cast<AmountAttr>(attribute.getValue());
  if (!amount)
    return op->emitOpError() << "agent.size of " << where << " is " << attribute.getValue()
                             << ", must be #agent.amount<…>";
  Type type = graph.getArgumentTypes()[argIndex];
  if (amount.getUnit() != unitOf(type))
    return op->emitOpError() << "agent.size of " << where << " is in " << stringifyUnit(amount.getUnit()) << ", "
                             << type << " is counted in " << stringifyUnit(unitOf(type));
  return success();
}
