#include "resolver/resolver.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "wire/mad/component_mask.h"
#include "wire/mad/sa_mad.h"

namespace weft::resolver {

namespace local = wire::local_service;
using local::DataMessage;
using local::DataOpcode;
using local::DataStatus;
using wire::PathRecord;

namespace {

constexpr std::size_t kSaHeaderBytes = wire::kSizeOf<wire::SaHeader>;

/// What the path of a message says that it wants; zero is a wildcard.
[[nodiscard]] sa::PathQuery query_of(const PathRecord& wanted) {
  return {.sgid = wanted.sgid,
          .dgid = wanted.dgid,
          .pkey = wanted.pkey,
          .service_id = wanted.service_id(),
          .tclass = wanted.tclass,
          .qos_class = wanted.qos_class,
          .is_reversible = wanted.reversible};
}

/// A reversible path is for every use; another one for datagrams that way only.
[[nodiscard]] std::uint32_t flags_of(const PathRecord& path) {
  return path.reversible ? local::kPathPrimary | local::kPathGmp | local::kPathBidirectional
                         : local::kPathPrimary | local::kPathOutbound;
}

/// The PathRecord that a MAD asks for; none: it asks for something else.
[[nodiscard]] std::optional<PathRecord> wanted_in(const local::MadData& data) {
  const auto header =
      wire::unpack<wire::SaHeader>(std::span{data.mad}.template first<kSaHeaderBytes>());
  if (header.header.method != wire::MadMethod::Get ||
      header.header.attribute_id != static_cast<std::uint16_t>(wire::SaAttribute::PathRecord)) {
    return std::nullopt;
  }
  return wire::unpack<PathRecord>(
      std::span{data.mad}.template subspan<kSaHeaderBytes, wire::kSizeOf<PathRecord>>());
}

/// The answer to a MAD that asked, with its transaction.
[[nodiscard]] local::MadData answer_to(local::MadData data, const PathRecord& path) {
  auto header = wire::unpack<wire::SaHeader>(std::span{data.mad}.template first<kSaHeaderBytes>());
  header.header.method = wire::MadMethod::GetResp;
  header.header.status = 0;
  wire::pack(header, std::span{data.mad}.template first<kSaHeaderBytes>());
  copy_bytes(std::span{data.mad}.subspan(kSaHeaderBytes), wire::pack(path));
  return data;
}

}  // namespace

Resolver::Resolver(ResolverServices& services, const ResolverOptions& options)
    : services_(services), options_(options), paths_(options.paths) {}

void Resolver::preload(const Preload& known) {
  for (const auto& [address, gid] : known.addresses) {
    addresses_[address] = gid;
  }
  for (const auto& [name, gid] : known.names) {
    names_[name] = gid;
  }
  for (const Preload::Path& path : known.paths) {
    paths_.preload(path.asked, path.path);
  }
}

void Resolver::handle_datagram(std::uint32_t from, ByteSpan datagram, Instant now) {
  while (const auto message = wire::netlink::take_message(datagram)) {
    if (message->header.is_request() && local::is_local_service(message->header.type)) {
      take(from, *message, now);
    }
  }
}

void Resolver::take(std::uint32_t from, const wire::netlink::Message& message, Instant now) {
  ++counters_.requests;
  Asker asker;
  asker.port = from;
  asker.sequence = message.header.sequence;
  if (message.header.type == local::kDataMessageType) {
    return take_data(asker, message, now);
  }
  switch (static_cast<local::Operation>(message.header.type & 0x3FF)) {
    case local::Operation::Resolve:
      return take_resolve(asker, message, now);
    case local::Operation::IpResolve:
      return take_ip_resolve(asker, message);
    default:
      ++counters_.malformed;  // SET_TIMEOUT is what resolvers say
  }
}

void Resolver::take_resolve(const Asker& asker, const wire::netlink::Message& message,
                            Instant now) {
  const auto request = local::parse_resolve_request(message.payload);
  if (!request || !request->dgid) {
    ++counters_.malformed;
    return answer(asker, std::nullopt);
  }
  look_up(
      {
          .path = {.sgid = request->sgid.value_or(Gid{}),
                   .dgid = *request->dgid,
                   .pkey = request->pkey.value_or(PKey{}),
                   .service_id = request->service_id.value_or(0),
                   .tclass = request->tclass.value_or(0),
                   .qos_class = request->qos_class.value_or(0),
                   .is_reversible = request->use != local::PathUse::Unidirectional}
  },
      asker, now);
}

void Resolver::take_ip_resolve(const Asker& asker, const wire::netlink::Message& message) {
  const local::Envelope envelope{.sequence = asker.sequence};
  std::vector<std::byte> datagram;
  const auto request = local::parse_ip_resolve_request(message.payload);
  const auto known = request ? addresses_.find(request->address) : addresses_.end();
  if (known == addresses_.end()) {
    ++(request ? counters_.no_data : counters_.malformed);
    local::append_failure(datagram, envelope, local::Operation::IpResolve);
  } else {
    ++counters_.addresses;
    local::append(datagram, envelope, local::IpResolveAnswer{.dgid = known->second});
  }
  services_.send(asker.port, std::move(datagram));
}

/// Also notes in `asker` in which form the answer is wanted. None: it asks for nothing here.
std::optional<Resolver::Wish> Resolver::wish_of(const DataMessage& said, Asker& asker) {
  Wish wish{.path = {},
            .wants_sa = (said.flags & local::kQuerySa) != 0,
            .waits = (said.flags & local::kNoDelay) == 0};
  const auto with_gid = [&](const auto& table, const auto& key) -> std::optional<Wish> {
    const auto known = table.find(key);
    if (known == table.end()) {
      return std::nullopt;
    }
    ++counters_.addresses;
    wish.path.dgid = known->second;
    return wish;
  };
  asker.form = Form::PathRecord;
  if (said.opcode == DataOpcode::Resolve) {
    if (const auto* const name = std::get_if<local::NameData>(&said.data)) {
      return with_gid(names_, name->name);
    }
    if (const auto* const address = std::get_if<IpAddress>(&said.data)) {
      return with_gid(addresses_, *address);
    }
    return std::nullopt;
  }
  std::optional<PathRecord> wanted;
  if (const auto* const path = std::get_if<PathRecord>(&said.data)) {
    wanted = *path;
  } else if (const auto* const user = std::get_if<local::UserPathData>(&said.data)) {
    asker.form = Form::UserPath;
    wanted = user->path;
  } else if (const auto* const mad = std::get_if<local::MadData>(&said.data)) {
    asker.form = Form::Mad;
    asker.mad = *mad;
    wanted = wanted_in(*mad);
  }
  if (said.opcode != DataOpcode::QueryPath || !wanted || wanted->dgid.is_zero()) {
    return std::nullopt;
  }
  wish.path = query_of(*wanted);
  return wish;
}

void Resolver::take_data(Asker asker, const wire::netlink::Message& message, Instant now) {
  asker.form = Form::PathRecord;
  const auto said = local::parse_data_message(message.payload);
  asker.opcode = said ? said->opcode : DataOpcode::QueryPath;
  if (!said || said->is_answer || said->opcode == DataOpcode::SetTimeout) {
    ++counters_.malformed;
    return answer(asker, std::nullopt);
  }
  const auto wish = wish_of(*said, asker);
  if (!wish) {
    return answer(asker, std::nullopt);
  }
  look_up(*wish, std::move(asker), now);
}

void Resolver::look_up(Wish wish, Asker asker, Instant now) {
  if (wish.path.sgid.is_zero()) {
    wish.path.sgid = services_.own_gid();
  }
  const PathTable::Entry* const known = wish.wants_sa ? nullptr : paths_.find(wish.path, now);
  if (known != nullptr) {
    ++(known->path ? counters_.hits : counters_.negative_hits);
    return answer(asker, known->path);
  }
  if (!wish.waits || waiters_ >= options_.waiters) {
    return answer(asker, std::nullopt);
  }
  if (const auto found = questions_.find(wish.path);
      found != questions_.end() && !found->second.is_stale) {
    ++counters_.coalesced;
    ++waiters_;
    found->second.askers.push_back(std::move(asker));
    return;
  }
  // A stale one is on its way still: who waits for that waits for this one, too.
  std::vector<Asker> askers;
  if (auto stale = questions_.extract(wish.path); !stale.empty()) {
    asked_.erase(stale.mapped().number);
    ends_.erase({stale.mapped().end, stale.mapped().number});
    askers = std::move(stale.mapped().askers);
  }
  askers.push_back(std::move(asker));
  ++waiters_;
  Question question{.number = SaQuestion{++last_question_},
                    .end = now + options_.patience,
                    .askers = std::move(askers)};
  const bool can_ask = questions_.size() < options_.questions;
  const SaQuestion number = question.number;
  asked_.emplace(number, wish.path);
  ends_.emplace(question.end, number);
  questions_.emplace(wish.path, std::move(question));
  if (!can_ask || !services_.ask_sa(number, wish.path)) {
    return finish(wish.path, std::nullopt);
  }
  ++counters_.asked;
}

void Resolver::answer(const Asker& asker, const std::optional<PathRecord>& path) {
  std::vector<std::byte> datagram;
  const local::Envelope envelope{.sequence = asker.sequence};
  counters_.no_data += path ? 0 : 1;
  if (asker.form == Form::Attributes) {
    if (path) {
      local::append(datagram, envelope,
                    local::ResolveAnswer{{{.flags = flags_of(*path), .path = *path}}});
    } else {
      local::append_failure(datagram, envelope, local::Operation::Resolve);
    }
    return services_.send(asker.port, std::move(datagram));
  }
  DataMessage said{.opcode = asker.opcode,
                   .is_answer = true,
                   .status = path ? DataStatus::Success : DataStatus::NoData,
                   .flags = path ? flags_of(*path) : 0};
  if (path && asker.form == Form::UserPath) {
    said.data = local::UserPathData{*path};
  } else if (path && asker.form == Form::Mad) {
    said.data = answer_to(asker.mad, *path);
  } else if (path) {
    said.data = *path;
  }
  local::append(datagram, envelope, said);
  services_.send(asker.port, std::move(datagram));
}

void Resolver::finish(const sa::PathQuery& asked, const std::optional<PathRecord>& path) {
  auto over = questions_.extract(asked);
  const Question& question = over.mapped();
  asked_.erase(question.number);
  ends_.erase({question.end, question.number});
  waiters_ -= question.askers.size();
  for (const Asker& asker : question.askers) {
    answer(asker, path);
  }
}

void Resolver::handle_path(SaQuestion question, const Result<PathRecord>& path, Instant now) {
  const auto found = asked_.find(question);
  if (found == asked_.end()) {
    return;  // given up
  }
  const sa::PathQuery asked = found->second;
  const bool is_kept = !questions_.at(asked).is_stale;
  if (path && path->dgid == asked.dgid && path->sgid == asked.sgid) {
    ++counters_.found;
    if (is_kept) {
      paths_.put(asked, *path, now);
    }
    return finish(asked, *path);
  }
  if (is_kept && !path && path.error().code == ErrorCode::NetworkUnreachable) {
    paths_.put_negative(asked, now);
  }
  finish(asked, std::nullopt);
}

void Resolver::invalidate() {
  ++counters_.invalidations;
  paths_.invalidate();
  for (auto& [asked, question] : questions_) {
    question.is_stale = true;
  }
}

void Resolver::invalidate_to(const Gid& dgid) {
  ++counters_.gids;
  paths_.invalidate_to(dgid);
  for (auto& [asked, question] : questions_) {
    question.is_stale = question.is_stale || asked.dgid == dgid;
  }
}

void Resolver::set_kernel_timeout(std::uint32_t milliseconds) {
  std::vector<std::byte> datagram;
  local::append(datagram, {.flags = wire::netlink::kFlagRequest},
                local::SetTimeout{.milliseconds = milliseconds});
  services_.send(0, std::move(datagram));
}

void Resolver::handle_timeout(Instant now) {
  while (!ends_.empty() && ends_.begin()->first <= now) {
    finish(sa::PathQuery{asked_.at(ends_.begin()->second)}, std::nullopt);
  }
}

}  // namespace weft::resolver
