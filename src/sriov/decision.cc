#include "sriov/decision.h"

#include <fmt/format.h>

#include "base/assert.h"

namespace weft::sriov {
namespace {

struct Row {
  Reason reason;
  Action action;
  std::string_view text;
};

constexpr auto kRows = std::to_array<Row>({
    {Reason::Translated,                  Action::SendToWire, "translated to the port's indexes and ids"          },
    {Reason::Aggregated,                  Action::Answer,     "a membership, which the physical function keeps"   },
    {Reason::VirtualQp0,                  Action::Discard,    "a virtual QP0 sends nothing"                       },
    {Reason::ForeignProxyQp,              Action::Drop,       "the source QP is not the function's proxy QP"      },
    {Reason::RateExceeded,                Action::Drop,       "the function's rate of MADs is exceeded"           },
    {Reason::InvalidPKeyIndex,            Action::Drop,       "the P_Key index is not in the function's table"    },
    {Reason::ForeignSourceGid,            Action::Drop,       "the source GID is not the function's"              },
    {Reason::DestinationQp0,              Action::Drop,       "a virtual function may not send to QP0"            },
    {Reason::ClassNotAllowed,             Action::Drop,       "the class is not allowed to virtual functions"     },
    {Reason::MethodNotAllowed,            Action::Drop,       "the method is not allowed in this class"           },
    {Reason::TransactionIdTagged,         Action::Drop,       "the transaction ID's top byte is not zero"         },
    {Reason::TooManyTransactions,         Action::Drop,       "too many transactions of the function are open"    },
    {Reason::TooManyConnections,          Action::Drop,       "too many connections of the function"              },
    {Reason::UnknownLocalCommunicationId, Action::Drop,       "no connection has the local ID"                    },
    {Reason::MulticastRefused,            Action::Drop,       "too many membership requests are open, or a repeat"},
    {Reason::TooManyGroups,               Action::Answer,     "it is in as many groups as it may be"              },
    {Reason::TooManyTables,               Action::Answer,     "too many tables are asked for and not taken"       },
    {Reason::WellKnownQKey,               Action::Drop,       "the well-known Q_Key belongs to QP1"               },
    {Reason::VirtualLane15,               Action::Drop,       "VL15 belongs to QP0"                               },
    {Reason::DefaultOwner,                Action::Deliver,    "no other owner is known"                           },
    {Reason::TransactionId,               Action::Deliver,    "the transaction ID is the function's"              },
    {Reason::DestinationGid,              Action::Deliver,    "the GRH's destination GID is the function's"       },
    {Reason::EmbeddedGid,                 Action::Deliver,    "the request's GID is the function's"               },
    {Reason::CommunicationId,             Action::Deliver,    "the communication ID is the function's"            },
    {Reason::PeerCommunicationId,         Action::Deliver,    "the function had the request it rejects"           },
    {Reason::IpAddress,                   Action::Deliver,    "the destination IP address is the function's"      },
    {Reason::ServiceListener,             Action::Deliver,    "the function listens for this service"             },
    {Reason::AggregateAnswer,             Action::Answer,     "it answers a request of the physical function"     },
    {Reason::UnknownDestinationGid,       Action::Drop,       "no function has the destination GID"               },
    {Reason::UnknownTransactionId,        Action::Drop,       "no function has a request with this ID"            },
    {Reason::UnknownEmbeddedGid,          Action::Drop,       "no function has the GID in the request"            },
    {Reason::UnknownCommunicationId,      Action::Drop,       "no function has the communication ID"              },
    {Reason::ConflictingOwners,           Action::Drop,       "transaction ID and GID name different functions"   },
    {Reason::InboundClassNotAllowed,      Action::Drop,       "the class is not for virtual functions"            },
    {Reason::NoMatchingPKey,              Action::Drop,       "the function's table has no matching P_Key"        },
    {Reason::TunnelNotReady,              Action::Drop,       "the tunnel is not active, or its ring is full"     },
});

consteval bool rows_are_in_order() {
  for (std::size_t i = 0; i < kRows.size(); ++i) {
    if (kRows[i].reason != static_cast<Reason>(i)) {
      return false;
    }
  }
  return kRows.size() == kReasons;
}
static_assert(rows_are_in_order());

[[nodiscard]] const Row& row_of(Reason reason) {
  const auto index = static_cast<std::size_t>(reason);
  WEFT_ASSERT(index < kRows.size(), "each reason has a row");
  return kRows[index];
}

[[nodiscard]] std::string mad_text(const wire::MadHeader& header) {
  const auto mgmt_class = wire::name_of(header.mgmt_class);
  const auto method = wire::name_of(header.method);
  const auto attribute = wire::attribute_name(header.mgmt_class, header.attribute_id);
  return fmt::format(
      "{} {} {}", mgmt_class.empty() ? "class reserved" : mgmt_class,
      method.empty() ? "method reserved" : method,
      attribute.empty() ? fmt::format("attribute 0x{:04x}", header.attribute_id) : attribute);
}

}  // namespace

Action action_of(Reason reason) { return row_of(reason).action; }
std::string_view text_of(Reason reason) { return row_of(reason).text; }

std::string_view name_of(Action action) {
  switch (action) {
    case Action::SendToWire:
      return "sent";
    case Action::Deliver:
      return "delivered";
    case Action::Answer:
      return "handled";
    case Action::Discard:
      return "discarded";
    case Action::Drop:
      return "dropped";
  }
  return {};
}

std::string name_of(FunctionId function) {
  return function == kPhysicalFunction ? "PF" : fmt::format("VF {}", function.value());
}

std::string to_string(const Decision& decision) {
  std::string text = fmt::format("{} {}: {} {}: {}", decision.is_outbound ? "from" : "to",
                                 name_of(decision.function), mad_text(decision.before),
                                 name_of(decision.action()), text_of(decision.reason));
  const bool went_on =
      decision.action() == Action::SendToWire || decision.action() == Action::Deliver;
  if (went_on && decision.before.transaction_id != decision.after.transaction_id) {
    text += fmt::format("; TransactionID 0x{:016x} became 0x{:016x}",
                        decision.before.transaction_id, decision.after.transaction_id);
  }
  return text;
}

std::uint64_t DecisionCounters::of(FunctionId function, Reason reason) const {
  const auto found = counts_.find(function);
  return found == counts_.end() ? 0 : found->second[static_cast<std::size_t>(reason)];
}

std::uint64_t DecisionCounters::of(FunctionId function, Action action) const {
  std::uint64_t sum = 0;
  for (const Count& each : all_of(function)) {
    sum += action_of(each.reason) == action ? each.count : 0;
  }
  return sum;
}

std::vector<DecisionCounters::Count> DecisionCounters::all_of(FunctionId function) const {
  std::vector<Count> all;
  if (const auto found = counts_.find(function); found != counts_.end()) {
    for (const Row& row : kRows) {
      if (const std::uint64_t count = found->second[static_cast<std::size_t>(row.reason)]) {
        all.push_back({.reason = row.reason, .count = count});
      }
    }
  }
  return all;
}

std::string DecisionCounters::report(FunctionId function) const {
  std::string text;
  const auto found = counts_.find(function);
  if (found == counts_.end()) {
    return text;
  }
  for (const Row& row : kRows) {
    const std::uint64_t count = found->second[static_cast<std::size_t>(row.reason)];
    if (count != 0) {
      text +=
          fmt::format("{}: {} {}: {}\n", name_of(function), count, name_of(row.action), row.text);
    }
  }
  return text;
}

}  // namespace weft::sriov
