#pragma once

// An interface whose packets a program of the host carries by a QP of its own, as `weft net` does:
// here it is addresses and questions. Its neighbours stand in the program's table alone, as those
// of a real interface stand in its kernel's, so that RDMA-CM and the interface do not ask twice,
// and hear alike of a neighbour that has changed. Pure, not thread-safe.

#include <deque>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/identifiers.h"
#include "base/ip_address.h"
#include "base/time.h"
#include "sa/ip_interface.h"
#include "sa/sa_client.h"

namespace weft::sa {

class CarriedInterface final : public IpInterface {
 public:
  /// `sa` is the port's client, and must outlive it.
  CarriedInterface(const InterfaceKey& key, const SaClient& sa) : key_(key), sa_(sa) {}

  void set_addresses(std::vector<InterfaceAddress> addresses) { addresses_ = std::move(addresses); }

  /// Who the program is to find, until then.
  struct Question {
    IpAddress address{};
    Instant until{};
  };
  [[nodiscard]] std::optional<Question> poll_question();
  /// What it has found. Not trusted: what was not asked for changes nothing.
  void take_answer(const IpAddress& address, const Gid& gid);

  [[nodiscard]] const InterfaceKey& key() const override { return key_; }
  [[nodiscard]] std::span<const InterfaceAddress> addresses() const override { return addresses_; }
  [[nodiscard]] bool is_up() const override { return sa_.port().is_active(); }
  [[nodiscard]] Gid gid() const override;
  /// None: each time the program is asked.
  [[nodiscard]] std::optional<Gid> find(const IpAddress& /*address*/,
                                        Instant /*now*/) const override {
    return std::nullopt;
  }
  [[nodiscard]] bool solicit(const IpAddress& address, Instant until, Instant now) override;
  void stop_soliciting(const IpAddress& address) override { asked_.erase(address); }
  [[nodiscard]] std::vector<Found> take_found() override { return std::exchange(found_, {}); }
  [[nodiscard]] bool is_due() const { return !found_.empty() || !questions_.empty(); }

 private:
  InterfaceKey key_;
  const SaClient& sa_;
  std::vector<InterfaceAddress> addresses_;
  std::map<IpAddress, Instant> asked_;  // and until when
  std::deque<Question> questions_;
  std::vector<Found> found_;
};

}  // namespace weft::sa
