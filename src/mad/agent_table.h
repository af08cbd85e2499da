#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/strong.h"
#include "mad/mad_message.h"
#include "wire/mad/mad.h"

namespace weft::mad {

class MadHandler;

/// The two management interfaces of a port: QP0 and QP1 (IBTA vol 1 §13.5.1, R-MI-1).
enum class InterfaceKind : std::uint8_t { Smi, Gsi };

/// True if MADs of the class belong to the interface: SMPs to QP0, all others to QP1.
[[nodiscard]] bool belongs_to(wire::ManagementClass mgmt_class, InterfaceKind kind);

/// Set of request methods by number; method numbers of requests have the R bit clear.
using MethodSet = std::bitset<128>;
[[nodiscard]] MethodSet methods(std::initializer_list<wire::MadMethod> list);

/// Parameters of an agent. An agent without methods only sends requests.
struct Registration {
  wire::ManagementClass mgmt_class{};
  std::uint8_t class_version{1};
  std::optional<std::uint32_t> oui{};  ///< for the vendor classes 0x30 to 0x4F
  MethodSet methods{};
  bool sends_any_class{};      ///< may send any class of the interface, as umad programs may
  bool handles_segments{};     ///< the agent implements RMPP: it receives and sends single segments
  bool accepts_any_version{};  ///< receive any class version; the agent negotiates it with the peer
  bool keeps_transaction_ids{};  ///< of posted MADs: a CM's replies have the method of requests
  /// Hears requests that another agent is registered for as well; what it answers is sent only
  /// where there is no such agent. So a kernel follows reports that a program of its host asked
  /// for, too.
  bool listens{};
  std::string name{};  ///< for error messages
};

/// Numbered from 1; becomes the upper 32 bits of the agent's transaction IDs.
using AgentId = Ordered<struct AgentIdTag, std::uint32_t>;

/// The agents of one interface, by class, version and method. Not thread-safe.
class AgentTable {
 public:
  AgentTable(InterfaceKind kind, std::size_t limit) : kind_(kind), limit_(limit) {}

  /// Fails if another agent is registered for one of the methods, unless one of the two only
  /// listens. `handler` must outlive the agent; it may be null for an agent without methods.
  [[nodiscard]] Result<AgentId> add(Registration registration, MadHandler* handler);
  [[nodiscard]] Result<void> remove(AgentId agent);
  [[nodiscard]] const Registration* registration(AgentId agent) const;

  /// Result of a lookup; all but Found become an error status in the response (R-MI-7).
  enum class Match : std::uint8_t { Found, NoClass, NoVersion, NoMethod };
  struct Lookup {
    Match match{};
    MadHandler* handler{};
  };
  [[nodiscard]] Lookup find(const MadBytes& mad) const;
  /// Those that hear the request besides the one that find() names.
  [[nodiscard]] std::vector<MadHandler*> find_listeners(const MadBytes& mad) const;

  /// The agent for a data segment or ACK, if it implements RMPP itself; otherwise null.
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
