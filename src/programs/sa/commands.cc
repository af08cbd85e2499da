#include "programs/sa/commands.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <vector>

#include "base/ip_address.h"
#include "os/clock.h"
#include "programs/host/sa_access.h"
#include "programs/sa/ask_resolver.h"
#include "wire/mad/component_mask.h"
#include "wire/print.h"

namespace weft::programs::sa_tool {

using sa::Answer;
using sa::QueryId;
using sa::SaClient;

namespace {

constexpr int kFailed = 1;
constexpr Duration kSaPatience = Duration::seconds(10);  // policy

[[nodiscard]] int print_error(std::string_view reason) {
  fmt::print(stderr, "weft-sa: {}\n", reason);
  return kFailed;
}

[[nodiscard]] std::optional<Gid> parse_gid(std::string_view text) {
  const auto address = parse_ip_address(text);
  return address && address->is_v6() ? std::optional{Gid{address->v6_octets()}} : std::nullopt;
}

/// Lets SA work until it is done, or the time is over.
[[nodiscard]] Result<void> run(SaAccess& access, const std::function<bool()>& is_done) {
  const Instant until = os::now() + kSaPatience;
  while (true) {
    if (auto worked = access.work(os::now()); !worked) {
      return worked;
    }
    const Instant now = os::now();
    if (is_done()) {
      return {};
    }
    if (until <= now) {
      return fail(ErrorCode::TimedOut, "SA does not answer");
    }
    const std::int64_t ns = (std::min(until, access.deadline()) - now).nanoseconds();
    std::vector<pollfd> waits;
    for (const int fd : access.descriptors()) {
      waits.push_back({.fd = fd, .events = POLLIN, .revents = 0});
    }
    poll(waits.data(), waits.size(),
         static_cast<int>(std::clamp<std::int64_t>((ns + 999'999) / 1'000'000, 0, 1'000)));
  }
}

/// As a node describes itself: text as far as the first zero.
[[nodiscard]] std::string description_of(const wire::NodeRecord& record) {
  std::string text;
  for (const std::byte octet : record.node_description.text) {
    const char letter = static_cast<char>(octet);
    if (letter == '\0') {
      break;
    }
    text += letter >= ' ' && letter <= '~' ? letter : '?';
  }
  return text;
}

/// Asks for a table, and prints a record a line. `begin` is given the handler. With `is_wanted`
/// those alone, of which there has to be one.
template <wire::WireType Record>
[[nodiscard]] int print_table(
    const std::function<Result<QueryId>(SaClient&, sa::RecordsHandler<Record>)>& begin,
    const std::function<bool(const Record&)>& is_wanted = {}) {
  const auto access = SaAccess::open();
  if (!access) {
    return print_error(access.error().reason);
  }
  std::optional<Answer<std::vector<Record>>> answer;
  const auto asked = begin(
      (*access)->client(),
      [&](QueryId, const Answer<std::vector<Record>>& records, Instant) { answer = records; });
  if (!asked) {
    return print_error(asked.error().reason);
  }
  if (const auto done = run(**access, [&] { return answer.has_value(); }); !done) {
    return print_error(done.error().reason);
  }
  if (!*answer) {
    return print_error(answer->error().is_no_records() ? "SA has no such record"
                                                       : answer->error().reason);
  }
  std::size_t printed = 0;
  for (const Record& record : **answer) {
    if (!is_wanted || is_wanted(record)) {
      fmt::print("{}\n", wire::to_text(record));
      ++printed;
    }
  }
  if (printed == 0 && is_wanted) {
    return print_error("SA has no such record");
  }
  fmt::print("from SA: {} records\n", printed);
  return 0;
}

void print_path(const wire::PathRecord& record, std::string_view from) {
  for (const wire::PrintedField& field : wire::printed_header(record).fields) {
    fmt::print("{}={}\n", field.name, field.text);
  }
  fmt::print("from {}\n", from);
}

/// 0: printed; none: the resolver does not know, or there is none.
[[nodiscard]] std::optional<int> path_from_resolver(const sa::PathQuery& wanted) {
  auto resolver = AskResolver::open();
  if (!resolver) {
    return std::nullopt;
  }
  const auto path = resolver->path(wanted);
  if (!path || !*path) {
    return std::nullopt;
  }
  print_path((*path)->record,
             (*path)->was_known ? "the resolver's cache" : "SA, which the resolver asked");
  return 0;
}

[[nodiscard]] int path_from_sa(SaAccess& access, const sa::PathQuery& wanted) {
  std::optional<Answer<wire::PathRecord>> answer;
  const auto asked = access.client().resolve_path(
      wanted, {.asks_source = false},
      [&](QueryId, const Answer<wire::PathRecord>& path, Instant) { answer = path; }, os::now());
  if (!asked) {
    return print_error(asked.error().reason);
  }
  if (const auto done = run(access, [&] { return answer.has_value(); }); !done) {
    return print_error(done.error().reason);
  }
  if (!*answer) {
    return print_error(answer->error().reason);
  }
  print_path(**answer, "SA");
  return 0;
}

}  // namespace

int find_path(const PathOptions& options) {
  const auto access = SaAccess::open();
  if (!access) {
    return print_error(access.error().reason);
  }
  const auto& gids = (*access)->port().gids;
  const auto from =
      options.from.empty() && !gids.empty() ? std::optional{gids.front()} : parse_gid(options.from);
  if (!from) {
    return print_error(options.from.empty() ? "the port has no GID yet: no subnet manager?"
                                            : "--from is a GID, which is written as fe80::1 is");
  }
  std::optional<Gid> to;
  // A GID that is also a node's IPv6 address is that of the address, if the resolver knows it.
  if (options.asks_resolver) {
    if (auto resolver = AskResolver::open()) {
      to = resolver->gid_of(options.to).value_or(std::nullopt);
    }
  }
  if (!to) {
    to = parse_gid(options.to);
  }
  if (!to) {
    return print_error(fmt::format(
        "'{}' is no GID, and no resolver on this host knows it (weft resolver --preload FILE)",
        options.to));
  }
  const sa::PathQuery wanted{.sgid = *from,
                             .dgid = *to,
                             .pkey = PKey{options.pkey},
                             .service_id = options.service_id,
                             .tclass = options.tclass};
  const auto printed = options.asks_resolver ? path_from_resolver(wanted) : std::nullopt;
  return printed ? *printed : path_from_sa(**access, wanted);
}

int find_services(const std::string& name) {
  wire::ServiceRecord wanted;
  if (name.size() > wanted.service_name.size()) {
    return print_error("a service's name has 64 octets at most");
  }
  copy_bytes(wanted.service_name, std::as_bytes(std::span{name}));
  return print_table<wire::ServiceRecord>(
      [&](SaClient& client, sa::RecordsHandler<wire::ServiceRecord> handler) {
        return client.get_services(
            SaClient::Kind::GetTable, wanted,
            name.empty() ? 0 : wire::kComponent<wire::ServiceRecord, "ServiceName">, {},
            std::move(handler), os::now());
      });
}

int find_nodes(const std::string& wanted) {
  // A number is a LID, which SA selects by; 0x... a GUID; all else a name.
  std::uint64_t number = 0;
  const bool is_hex = wanted.starts_with("0x");
  const char* const end = wanted.data() + wanted.size();
  const auto read =
      std::from_chars(wanted.data() + (is_hex ? 2 : 0), end, number, is_hex ? 16 : 10);
  const bool is_number = !wanted.empty() && read.ec == std::errc{} && read.ptr == end;
  const bool is_lid = is_number && !is_hex;
  if (is_lid && (number == 0 || number > 0xFFFF)) {
    return print_error("a LID is from 1 to 65535; a GUID is written as 0x0002c90300001234 is");
  }
  const wire::NodeRecord asked{.lid = Lid{is_lid ? static_cast<std::uint32_t>(number) : 0}};
  return print_table<wire::NodeRecord>(
      [&](SaClient& client, sa::RecordsHandler<wire::NodeRecord> handler) {
        return client.get_nodes(SaClient::Kind::GetTable, asked,
                                is_lid ? wire::kComponent<wire::NodeRecord, "LID"> : 0, {},
                                std::move(handler), os::now());
      },
      wanted.empty() ? std::function<bool(const wire::NodeRecord&)>{}
                     : [&](const wire::NodeRecord& record) {
        if (is_lid) {
          return true;
        }
        const std::string description = description_of(record);
        return is_number ? record.node_info.node_guid == Guid{number} ||
                               record.node_info.port_guid == Guid{number}
                         : description == wanted ||
                               description.substr(0, description.find(' ')) == wanted;
      });
}

int find_members(const std::string& mgid) {
  const auto group = parse_gid(mgid);
  if (!group && !mgid.empty()) {
    return print_error("a group's MGID is written as ff12:401b:ffff::ffff:ffff is");
  }
  wire::McMemberRecord wanted;
  wanted.mgid = group.value_or(Gid{});
  return print_table<wire::McMemberRecord>(
      [&](SaClient& client, sa::RecordsHandler<wire::McMemberRecord> handler) {
        return client.get_members(SaClient::Kind::GetTable, wanted,
                                  group ? wire::kComponent<wire::McMemberRecord, "MGID"> : 0, {},
                                  std::move(handler), os::now());
      });
}

}  // namespace weft::programs::sa_tool
