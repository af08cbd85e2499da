#pragma once

#include <cstddef>
#include <unordered_map>
#include <vector>

#include "base/identifiers.h"
#include "base/time.h"
#include "fabric/counters.h"
#include "fabric/port_details.h"
#include "fabric/tables.h"

namespace weft::fabric {

/// The counters that performance management reads. Senders keep them once per path
/// (docs/ARCHITECTURE.md, decision 1), and the owner of the fabric sums them up. Single-threaded.
class CounterSource {
 public:
  CounterSource() = default;
  virtual ~CounterSource() = default;
  CounterSource(const CounterSource&) = delete;
  CounterSource& operator=(const CounterSource&) = delete;

  /// Sets the number of ports. Called before any other function, and when the fabric grows.
  virtual void resize(std::size_t port_count) = 0;
  /// The port's counters since the last set(), or since it was created.
  [[nodiscard]] virtual PortCounters read(PortIndex port, Instant now) = 0;
  /// The port continues counting from `value`.
  virtual void set(PortIndex port, const PortCounters& value, Instant now) = 0;
  /// Counters that the management plane itself keeps for the port: its own packets, link downs.
  /// Only ever added to; the reference is valid until resize().
  [[nodiscard]] virtual PortCounters& own(PortIndex port) = 0;

  /// The breakdown of a port's counters. Setting counters does not affect it, nor vice versa.
  [[nodiscard]] virtual PortDetails read_details(PortIndex port, Instant now) = 0;
  virtual void set_details(PortIndex port, const PortDetails& value, Instant now) = 0;
  /// The same as own(), for details; without service level 0, which is the remainder.
  [[nodiscard]] virtual DetailsOfPorts& own_details() = 0;
};

/// Counters held in this object, for fabrics without data traffic.
class PlainCounters final : public CounterSource {
 public:
  void resize(std::size_t port_count) override { ports.resize(port_count); }
  [[nodiscard]] PortCounters read(PortIndex port, Instant /*now*/) override {
    return ports.at(port.value());
  }
  void set(PortIndex port, const PortCounters& value, Instant /*now*/) override {
    PortCounters& taken = taken_off_[port];
    taken += ports.at(port.value());
    taken -= value;
    ports.at(port.value()) = value;
  }
  [[nodiscard]] PortCounters& own(PortIndex port) override { return ports[port.value()]; }

  [[nodiscard]] PortDetails read_details(PortIndex port, Instant now) override {
    PortCounters counted = read(port, now);
    if (const auto taken = taken_off_.find(port); taken != taken_off_.end()) {
      counted += taken->second;
    }
    PortDetails value = with_level_0(details_of(details, port), counted);
    return value -= details_of(details_taken_off_, port);
  }
  void set_details(PortIndex port, const PortDetails& value, Instant now) override {
    const PortDetails known = read_details(port, now);
    PortDetails& taken = details_taken_off_[port];
    taken += known;
    taken -= value;
  }
  [[nodiscard]] DetailsOfPorts& own_details() override { return details; }

  std::vector<PortCounters> ports;
  DetailsOfPorts details;

 private:
  std::unordered_map<PortIndex, PortCounters> taken_off_;
  DetailsOfPorts details_taken_off_;
};

}  // namespace weft::fabric
