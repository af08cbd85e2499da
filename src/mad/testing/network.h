#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "base/random.h"
#include "base/time.h"
#include "mad/management_interface.h"

/// For tests: management interfaces on a network in virtual time, with a log of completions.
namespace weft::mad {

/// In parts of 100; delays are uniform, so that MADs overtake each other.
struct NetworkFaults {
  unsigned loss{};
  unsigned duplication{};
  Duration delay_min{Duration::microseconds(10)};
  Duration delay_max{Duration::microseconds(10)};
};

class TestNetwork {
 public:
  explicit TestNetwork(std::uint64_t seed = 1, const NetworkFaults& faults = {})
      : random_(seed), faults_(faults) {}

  void attach(Lid lid, ManagementInterface& interface) { interfaces_[lid] = &interface; }

  /// Delivers MADs and advances time until nothing is pending or `until` is reached.
  void run(Instant until = Instant{Duration::seconds(10'000)}) {
    for (std::uint64_t steps = 0;; ++steps) {
      WEFT_ASSERT(steps < 2'000'000, "the network does not come to rest");
      collect();
      Instant next = arrivals_.empty() ? Instant::never() : std::get<0>(arrivals_.begin()->first);
      for (const auto& [lid, interface] : interfaces_) {
        next = std::min(next, interface->deadline());
      }
      if (next == Instant::never() || next > until) {
        now = until == Instant{Duration::seconds(10'000)} ? now : until;
        return;
      }
      now = std::max(now, next);
      deliver();
      for (const auto& [lid, interface] : interfaces_) {
        interface->handle_timeout(now);
        interface->check_invariants();
      }
    }
  }

  /// Every MAD that was sent, lost ones too: from, to, bytes, when.
  struct Sent {
    Lid from;
    Lid to;
    MadBytes bytes{};
    Instant at;
  };
  std::vector<Sent> sent;
  Instant now;
  bool keeps_log{true};

 private:
  void collect() {
    for (const auto& [lid, interface] : interfaces_) {
      while (const auto packet = interface->poll_transmit(now)) {
        if (keeps_log) {
          sent.push_back(
              {.from = lid, .to = packet->address.lid, .bytes = packet->bytes, .at = now});
        }
        const unsigned copies = random_.chance(faults_.loss, 100)          ? 0
                                : random_.chance(faults_.duplication, 100) ? 2
                                                                           : 1;
        for (unsigned i = 0; i < copies; ++i) {
          const auto span =
              static_cast<std::uint64_t>((faults_.delay_max - faults_.delay_min).nanoseconds());
          const Duration delay =
              faults_.delay_min +
              Duration::nanoseconds(static_cast<std::int64_t>(span == 0 ? 0 : random_.below(span)));
          arrivals_.emplace(
              std::pair{now + delay, ++order_},
              Arrival{.from = lid, .to = packet->address.lid, .bytes = packet->bytes});
        }
      }
    }
  }

  void deliver() {
    while (!arrivals_.empty() && std::get<0>(arrivals_.begin()->first) <= now) {
      const Arrival arrival = arrivals_.begin()->second;
      arrivals_.erase(arrivals_.begin());
      if (const auto found = interfaces_.find(arrival.to); found != interfaces_.end()) {
        found->second->handle_mad({.lid = arrival.from}, arrival.bytes, now);
        found->second->check_invariants();
      }
    }
  }

  struct Arrival {
    Lid from;
    Lid to;
    MadBytes bytes{};
  };
  Random random_;
  NetworkFaults faults_;
  std::map<Lid, ManagementInterface*> interfaces_;
  std::map<std::pair<Instant, std::uint64_t>, Arrival> arrivals_;
  std::uint64_t order_{};
};

/// A completion with a copy of the response.
struct Reported {
  TransactionId transaction;
  TransactionStatus status{};
  MadMessage answer{};
  unsigned sends{};
  wire::RmppStatus rmpp_status{};
};

class Listener {
 public:
  [[nodiscard]] CompletionHandler handler() {
    return [this](const Completion& completion) {
      reported.push_back(
          {.transaction = completion.transaction,
           .status = completion.status,
           .answer = completion.answer != nullptr ? *completion.answer : MadMessage{},
           .sends = completion.sends,
           .rmpp_status = completion.rmpp_status});
    };
  }
  std::vector<Reported> reported;
};

/// An agent made of a function.
class TestAgent final : public MadHandler {
 public:
  using Function = std::function<const MadMessage*(MadRequest&)>;
  explicit TestAgent(Function function) : function_(std::move(function)) {}
  const MadMessage* handle(MadRequest& request) override {
    ++requests;
    return function_(request);
  }
  int requests{};

 private:
  Function function_;
};

[[nodiscard]] inline MadMessage request_of(wire::ManagementClass mgmt_class, wire::MadMethod method,
                                           std::uint16_t attribute = 0x11) {
  MadMessage message;
  message.set_header({.mgmt_class = mgmt_class,
                      .class_version = static_cast<std::uint8_t>(
                          mgmt_class == wire::ManagementClass::SubnAdm ? 2 : 1),
                      .method = method,
                      .attribute_id = attribute});
  return message;
}

[[nodiscard]] inline Registration registration_of(wire::ManagementClass mgmt_class,
                                                  std::initializer_list<wire::MadMethod> list) {
  return {.mgmt_class = mgmt_class,
          .class_version =
              static_cast<std::uint8_t>(mgmt_class == wire::ManagementClass::SubnAdm ? 2 : 1),
          .methods = methods(list),
          .name = "test"};
}

/// Bytes that differ from place to place.
[[nodiscard]] inline std::vector<std::byte> pattern(std::size_t bytes, std::uint64_t seed = 5) {
  Random random{seed};
  std::vector<std::byte> data(bytes);
  for (std::byte& octet : data) {
    octet = static_cast<std::byte>(random());
  }
  return data;
}

}  // namespace weft::mad
