#pragma once

#include <cstddef>
#include <vector>

#include "base/identifiers.h"
#include "base/time.h"
#include "fabric/counters.h"
#include "fabric/tables.h"

namespace weft::agents {

/// Where performance management has its counters from: they are kept once per path, by those who
/// send (DESIGN.md, decision 1), and summed by the owner of the fabric.
class CounterSource {
 public:
  CounterSource() = default;
  virtual ~CounterSource() = default;
  CounterSource(const CounterSource&) = delete;
  CounterSource& operator=(const CounterSource&) = delete;

  [[nodiscard]] virtual fabric::PortCounters read(fabric::PortIndex port, Instant now) = 0;
  /// From now on the port counts from `value`.
  virtual void set(fabric::PortIndex port, const fabric::PortCounters& value, Instant now) = 0;
  /// The port's link went down.
  virtual void count_link_downed(fabric::PortIndex port) = 0;
};

/// Counters that are numbers, for who carries no data or counts it here.
class PlainCounters final : public CounterSource {
 public:
  explicit PlainCounters(std::size_t port_count) : ports(port_count) {}

  [[nodiscard]] fabric::PortCounters read(fabric::PortIndex port, Instant /*now*/) override {
    return ports.at(port.value());
  }
  void set(fabric::PortIndex port, const fabric::PortCounters& value, Instant /*now*/) override {
    ports.at(port.value()) = value;
  }
  void count_link_downed(fabric::PortIndex port) override { ++ports.at(port.value()).link_downed; }

  std::vector<fabric::PortCounters> ports;
};

}  // namespace weft::agents
