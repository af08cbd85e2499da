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

  /// The fabric has so many ports: before anybody asks, and when it grows.
  virtual void resize(std::size_t port_count) = 0;
  [[nodiscard]] virtual fabric::PortCounters read(fabric::PortIndex port, Instant now) = 0;
  /// From now on the port counts from `value`.
  virtual void set(fabric::PortIndex port, const fabric::PortCounters& value, Instant now) = 0;
  /// What the management plane itself counts at the port: its packets, downs of its link. Whoever
  /// counts only adds; the reference is good until resize().
  [[nodiscard]] virtual fabric::PortCounters& own(fabric::PortIndex port) = 0;
};

/// Counters that are numbers, for who carries no data or counts it here.
class PlainCounters final : public CounterSource {
 public:
  void resize(std::size_t port_count) override { ports.resize(port_count); }
  [[nodiscard]] fabric::PortCounters read(fabric::PortIndex port, Instant /*now*/) override {
    return ports.at(port.value());
  }
  void set(fabric::PortIndex port, const fabric::PortCounters& value, Instant /*now*/) override {
    ports.at(port.value()) = value;
  }
  [[nodiscard]] fabric::PortCounters& own(fabric::PortIndex port) override {
    return ports[port.value()];
  }

  std::vector<fabric::PortCounters> ports;
};

}  // namespace weft::agents
