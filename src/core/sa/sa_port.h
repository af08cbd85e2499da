#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "base/identifiers.h"
#include "core/mad/mad_port.h"
#include "sa/local_service.h"
#include "sa/sa_client.h"

namespace weft::core {

class SaMulticast;
struct Event;

/// The SA client of one port: an sa::SaClient above the port's QP1, whose view of the port follows
/// the device's events. What kernel users see of it is core/sa/sa_user.h.
class SaPort final : private MadEngine {
 public:
  SaPort(MadPort& port, const sa::SaClientLimits& limits);
  /// Ends what is under way: queries with NotSent, memberships as lost.
  ~SaPort();
  SaPort(const SaPort&) = delete;
  SaPort& operator=(const SaPort&) = delete;

  [[nodiscard]] MadPort& mad_port() const { return port_; }
  [[nodiscard]] PortNumber number() const { return port_.number(); }

  /// Reads the port anew after an event of it (R-SA-5).
  void handle(const Event& event);

  /// Calls `function(client, now)` with the port locked.
  template <class Function>
  decltype(auto) with_client(Function function) {
    return port_.with_interface(
        [&](mad::ManagementInterface&, Instant now) { return function(*client_, now); });
  }

  // --- with the port locked
  /// It is asked for paths before SA is, and outlives this.
  void use_local_service(sa::LocalService& service);

  // --- with the port locked: memberships by a number that is never used again, since what the
  // client still has to tell of one may come after its end
  std::uint64_t add_membership(SaMulticast& membership) {
    memberships_.emplace(++last_membership_, &membership);
    return last_membership_;
  }
  [[nodiscard]] SaMulticast* find_membership(std::uint64_t number) const {
    const auto found = memberships_.find(number);
    return found != memberships_.end() ? found->second : nullptr;
  }
  void remove_membership(std::uint64_t number) { memberships_.erase(number); }

 private:
  void handle_timeout(Instant now) override;
  [[nodiscard]] Instant deadline() const override;
  void read_port();

  MadPort& port_;
  std::uint8_t reregistrations_{};      // events after which SA is told all memberships again
  std::optional<sa::SaClient> client_;  // under the port's lock, as what follows
  sa::LocalService* local_service_{};   // of all ports of the host; null: nobody is asked
  std::map<std::uint64_t, SaMulticast*> memberships_;
  std::uint64_t last_membership_{};
};

}  // namespace weft::core
