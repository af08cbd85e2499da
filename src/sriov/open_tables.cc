#include "sriov/open_tables.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <span>

#include "mad/mad_message.h"
#include "wire/mad/mad.h"

namespace weft::sriov {
namespace {

using wire::MadMethod;

[[nodiscard]] wire::MadHeader header_of(const MadBytes& mad) {
  return wire::unpack<wire::MadHeader>(std::span{mad}.first<wire::kSizeOf<wire::MadHeader>>());
}

/// Their answers come by RMPP (IBTA vol 1 §13.6).
[[nodiscard]] bool asks_for_table(MadMethod method) {
  return method == MadMethod::GetTable || method == MadMethod::GetTraceTable ||
         method == MadMethod::GetMulti;
}

[[nodiscard]] bool ends(wire::RmppType type) {
  return type == wire::RmppType::Stop || type == wire::RmppType::Abort;
}

}  // namespace

std::size_t OpenTables::count_of(FunctionId function) const {
  const auto first = open_.lower_bound({function, 0});
  const auto end = open_.upper_bound({function, std::numeric_limits<std::uint64_t>::max()});
  return static_cast<std::size_t>(std::distance(first, end));
}

/// Each may have a part of what is left to all: so it takes many that ask without end until one
/// that has none finds none left.
bool OpenTables::may_open(FunctionId function) const {
  const std::size_t left = limits_.of_port - std::min(limits_.of_port, open_.size());
  return function == kPhysicalFunction || count_of(function) * limits_.part < left;
}

bool OpenTables::handle_outbound(FunctionId function, const MadBytes& mad, Instant now) {
  const wire::MadHeader header = header_of(mad);
  if (!asks_for_table(header.method)) {
    return true;
  }
  const Key key{function, header.transaction_id};
  const wire::Rmpp rmpp = mad::rmpp_of(mad);
  const auto known = open_.find(key);
  if (known == open_.end()) {
    if (rmpp.is_active && rmpp.type != wire::RmppType::Data) {
      return true;  // of one that has ended
    }
    if (!may_open(function)) {
      return false;
    }
    open_.emplace(key, Table{.expires = now + limits_.lifetime});
    return true;
  }
  Table& table = known->second;
  const bool is_taken = rmpp.is_active && rmpp.type == wire::RmppType::Ack &&
                        table.last_segment != 0 && rmpp.data1 >= table.last_segment;
  if (is_taken || (rmpp.is_active && ends(rmpp.type))) {
    open_.erase(known);
  } else {
    table.expires = now + limits_.lifetime;
  }
  return true;
}

void OpenTables::handle_inbound(FunctionId function, const MadBytes& mad, Instant now) {
  const wire::MadHeader header = header_of(mad);
  const auto known = open_.find({function, header.transaction_id});
  if (known == open_.end() || !wire::is_response(header.method)) {
    return;
  }
  const wire::Rmpp rmpp = mad::rmpp_of(mad);
  if (!rmpp.is_active || ends(rmpp.type)) {
    open_.erase(known);  // an error, as a rule
    return;
  }
  if (rmpp.type == wire::RmppType::Data && rmpp.is_last) {
    known->second.last_segment = rmpp.data1;
  }
  known->second.expires = now + limits_.lifetime;
}

void OpenTables::remove(FunctionId function) {
  std::erase_if(open_, [&](const auto& entry) { return entry.first.first == function; });
}

void OpenTables::handle_timeout(Instant now) {
  std::erase_if(open_, [&](const auto& entry) { return entry.second.expires <= now; });
}

Instant OpenTables::poll_deadline() const {
  Instant first = Instant::never();
  for (const auto& [key, table] : open_) {
    first = std::min(first, table.expires);
  }
  return first;
}

}  // namespace weft::sriov
