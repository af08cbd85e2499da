#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>

#include "base/result.h"
#include "base/strong.h"
#include "mad/mad_message.h"
#include "wire/mad/mad.h"

namespace weft::mad {

class MadHandler;

/// The two management interfaces of a port: QP0 and QP1 (IBTA vol 1 §13.5.1, R-MI-1).
enum class InterfaceKind : std::uint8_t { Smi, Gsi };

/// Whether MADs of the class belong to the interface: SMPs to QP0, all others to QP1.
[[nodiscard]] bool belongs_to(wire::ManagementClass mgmt_class, InterfaceKind kind);

/// Requests by method number, which never has the R bit.
using MethodSet = std::bitset<128>;
[[nodiscard]] MethodSet methods(std::initializer_list<wire::MadMethod> list);

/// What an agent answers for. Without methods it only asks.
struct Registration {
  wire::ManagementClass mgmt_class{};
  std::uint8_t class_version{1};
  std::optional<std::uint32_t> oui{};  ///< of the vendors' classes 0x30 to 0x4F
  MethodSet methods{};
  bool sends_any_class{};        ///< of the interface, not only its own, as programs of umad may
  bool handles_segments{};       ///< of RMPP: it is given each as it came, and sends each itself
  bool takes_any_version{};      ///< of the class: it tells peers itself which one is spoken
  bool keeps_transaction_ids{};  ///< of what it posts: a CM's answers are requests by their method
  std::string name{};            ///< for errors
};

/// From 1; the high 32 bits of the transaction IDs that the agent uses.
using AgentId = Ordered<struct AgentIdTag, std::uint32_t>;

/// Who answers what. One thread.
class AgentTable {
 public:
  AgentTable(InterfaceKind kind, std::size_t limit) : kind_(kind), limit_(limit) {}

  /// Refused when another agent already has one of the methods. `handler` must outlive the agent
  /// and may be null for one without methods.
  [[nodiscard]] Result<AgentId> add(Registration registration, MadHandler* handler);
  [[nodiscard]] Result<void> remove(AgentId agent);
  [[nodiscard]] const Registration* registration(AgentId agent) const;

  enum class Verdict : std::uint8_t { Found, NoClass, NoVersion, NoMethod };
  struct Lookup {
    Verdict verdict{};
    MadHandler* handler{};
  };
  [[nodiscard]] Lookup find(const MadBytes& mad) const;

  /// The agent that a segment is for, or an ACK of one, if it handles them itself; otherwise null.
  [[nodiscard]] MadHandler* find_segment_handler(const MadBytes& mad) const;

 private:
  struct Agent {
    Registration registration;
    MadHandler* handler{};
  };

  [[nodiscard]] Result<void> check(const Registration& registration) const;

  InterfaceKind kind_;
  std::size_t limit_;
  std::map<AgentId, Agent> agents_;
  std::uint32_t last_id_{};
};

}  // namespace weft::mad
