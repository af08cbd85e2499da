#pragma once

#include <cstddef>
#include <unordered_map>
#include <vector>

#include "base/identifiers.h"
#include "base/time.h"
#include "fabric/counters.h"
#include "fabric/port_details.h"
#include "fabric/tables.h"

namespace weft::agents {

/// Where performance management has its counters from: they are kept once per path, by those who
/// send (docs/ARCHITECTURE.md, decision 1), and summed by the owner of the fabric.
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

  /// What the counters of a port are made of. A Set of one is none of the other.
  [[nodiscard]] virtual fabric::PortDetails read_details(fabric::PortIndex port, Instant now) = 0;
  virtual void set_details(fabric::PortIndex port, const fabric::PortDetails& value,
                           Instant now) = 0;
  /// As own(); without level 0, which is the rest.
  [[nodiscard]] virtual fabric::DetailsOfPorts& own_details() = 0;
};

/// Counters that are numbers, for who carries no data or counts it here.
class PlainCounters final : public CounterSource {
 public:
  void resize(std::size_t port_count) override { ports.resize(port_count); }
  [[nodiscard]] fabric::PortCounters read(fabric::PortIndex port, Instant /*now*/) override {
    return ports.at(port.value());
  }
  void set(fabric::PortIndex port, const fabric::PortCounters& value, Instant /*now*/) override {
    fabric::PortCounters& taken = taken_off_[port];
    taken += ports.at(port.value());
    taken -= value;
    ports.at(port.value()) = value;
  }
  [[nodiscard]] fabric::PortCounters& own(fabric::PortIndex port) override {
    return ports[port.value()];
  }

  [[nodiscard]] fabric::PortDetails read_details(fabric::PortIndex port, Instant now) override {
    fabric::PortCounters counted = read(port, now);
    if (const auto taken = taken_off_.find(port); taken != taken_off_.end()) {
      counted += taken->second;
    }
    fabric::PortDetails value = with_level_0(details_of(details, port), counted);
    return value -= details_of(details_taken_off_, port);
  }
  void set_details(fabric::PortIndex port, const fabric::PortDetails& value, Instant now) override {
    const fabric::PortDetails known = read_details(port, now);
    fabric::PortDetails& taken = details_taken_off_[port];
    taken += known;
    taken -= value;
  }
  [[nodiscard]] fabric::DetailsOfPorts& own_details() override { return details; }

  std::vector<fabric::PortCounters> ports;
  fabric::DetailsOfPorts details;

 private:
  std::unordered_map<fabric::PortIndex, fabric::PortCounters> taken_off_;
  fabric::DetailsOfPorts details_taken_off_;
};

}  // namespace weft::agents
