#include "sa/local_service.h"

#include <algorithm>
#include <cerrno>
#include <span>
#include <utility>
#include <variant>

#include "wire/mad/component_mask.h"
#include "wire/mad/sa_mad.h"

namespace weft::sa {
namespace {

namespace local = wire::local_service;
using local::DataMessage;
using local::DataOpcode;
using local::DataStatus;
using local::PathData;
using wire::kComponent;
using wire::PathRecord;

constexpr std::uint64_t kServiceId =
    kComponent<PathRecord, "ServiceID8MSB"> | kComponent<PathRecord, "ServiceID56LSB">;

[[nodiscard]] bool has(std::uint64_t mask, std::uint64_t components) {
  return (mask & components) == components;
}

/// Reversible paths are for management and connections, others for datagrams one way (R-NL-6).
[[nodiscard]] local::PathUse use_of(const PathRecord& wanted, std::uint64_t mask) {
  const bool is_reversible = has(mask, kComponent<PathRecord, "Reversible">) && wanted.reversible;
  return is_reversible ? local::PathUse::Gmp : local::PathUse::Unidirectional;
}

/// A path by other ends than those that were asked for is none.
[[nodiscard]] bool fits(const PathRecord& path, const PathRecord& wanted, std::uint64_t mask) {
  return (!has(mask, kComponent<PathRecord, "DGID">) || path.dgid == wanted.dgid) &&
         (!has(mask, kComponent<PathRecord, "SGID">) || path.sgid == wanted.sgid);
}

/// The path in an answer of the proposal's kind.
struct PathIn {
  std::optional<PathRecord> operator()(const PathRecord& path) const { return path; }
  std::optional<PathRecord> operator()(const local::UserPathData& data) const { return data.path; }
  std::optional<PathRecord> operator()(const local::MadData& data) const {
    constexpr std::size_t kHeaderBytes = wire::kSizeOf<wire::SaHeader>;
    const auto header =
        wire::unpack<wire::SaHeader>(std::span{data.mad}.template first<kHeaderBytes>());
    const bool is_answer =
        header.header.method == wire::MadMethod::GetResp && header.header.status == 0 &&
        header.header.attribute_id == static_cast<std::uint16_t>(wire::SaAttribute::PathRecord);
    if (!is_answer) {
      return std::nullopt;
    }
    return wire::unpack<PathRecord>(
        std::span{data.mad}.template subspan<kHeaderBytes, wire::kSizeOf<PathRecord>>());
  }
  template <class Other>
  std::optional<PathRecord> operator()(const Other&) const {
    return std::nullopt;
  }
};

}  // namespace

LocalService::LocalService(LocalServiceLink& link, const LocalServiceOptions& options,
                           std::function<void()> on_due)
    : link_(link), options_(options), on_due_(std::move(on_due)), timeout_(options.timeout) {}

bool LocalService::can_ask() const {
  return questions_.size() < options_.questions && link_.has_listeners();
}

std::vector<std::byte> LocalService::request_of(Sequence sequence, const NamedPort& port,
                                                const Question& question) const {
  const PathRecord& wanted = question.wanted;
  const std::uint64_t mask = question.mask;
  std::vector<std::byte> datagram;
  const local::Envelope envelope{.sequence = sequence, .flags = wire::netlink::kFlagRequest};
  if (options_.format == LocalServiceOptions::Format::DataHeader) {
    local::append(datagram, envelope,
                  DataMessage{.flags = local::flags_wanted(question.use), .data = question.wanted});
    return datagram;
  }
  local::ResolveRequest request{
      .device_name = port.device, .port = port.number, .use = question.use};
  if (has(mask, kServiceId)) {
    request.service_id = wanted.service_id();
  }
  if (has(mask, kComponent<PathRecord, "DGID">)) {
    request.dgid = wanted.dgid;
  }
  if (has(mask, kComponent<PathRecord, "SGID">)) {
    request.sgid = wanted.sgid;
  }
  if (has(mask, kComponent<PathRecord, "TClass">)) {
    request.tclass = wanted.tclass;
  }
  if (has(mask, kComponent<PathRecord, "P_Key">)) {
    request.pkey = wanted.pkey;
  }
  if (has(mask, kComponent<PathRecord, "QoSClass">)) {
    request.qos_class = wanted.qos_class;
  }
  local::append(datagram, envelope, request);
  return datagram;
}

/// As request_of() asks for it: resolvers keep paths by that.
std::optional<PathRecord> LocalService::known(const PathRecord& wanted, std::uint64_t mask,
                                              Instant now) {
  if (!has(mask, kComponent<PathRecord, "DGID">) || !has(mask, kComponent<PathRecord, "SGID">)) {
    return std::nullopt;
  }
  PathQuery asked{.sgid = wanted.sgid,
                  .dgid = wanted.dgid,
                  .is_reversible = use_of(wanted, mask) == local::PathUse::Gmp};
  if (has(mask, kServiceId)) {
    asked.service_id = wanted.service_id();
  }
  if (has(mask, kComponent<PathRecord, "TClass">)) {
    asked.tclass = wanted.tclass;
  }
  if (has(mask, kComponent<PathRecord, "P_Key">)) {
    asked.pkey = wanted.pkey;
  }
  if (has(mask, kComponent<PathRecord, "QoSClass">)) {
    asked.qos_class = wanted.qos_class;
  }
  auto path = link_.published(asked, now);
  counters_.published += path ? 1 : 0;
  return path;
}

/// Nobody waits for a request that nobody took.
std::optional<PathSource::QuestionId> LocalService::send(Sequence sequence, ByteSpan datagram,
                                                         Question question) {
  if (!link_.multicast(datagram)) {
    return std::nullopt;
  }
  ++counters_.asked;
  ends_.emplace(question.end, sequence);
  questions_.emplace(sequence, std::move(question));
  if (on_due_) {
    on_due_();
  }
  return QuestionId{sequence};
}

std::optional<PathSource::QuestionId> LocalService::ask(const NamedPort& port,
                                                        const PathRecord& wanted,
                                                        std::uint64_t mask, Done done,
                                                        Instant now) {
  if (!can_ask()) {
    return std::nullopt;
  }
  Question question{.use = use_of(wanted, mask),
                    .wanted = wanted,
                    .mask = mask,
                    .end = now + timeout_,
                    .done = std::move(done),
                    .gid_done = {}};
  const Sequence sequence = next_sequence();
  const auto datagram = request_of(sequence, port, question);
  return send(sequence, datagram, std::move(question));
}

std::optional<PathSource::QuestionId> LocalService::ask_address(std::uint32_t interface_index,
                                                                const IpAddress& address,
                                                                GidDone done, Instant now) {
  if (!can_ask()) {
    return std::nullopt;
  }
  const Sequence sequence = next_sequence();
  std::vector<std::byte> datagram;
  local::append(datagram, {.sequence = sequence, .flags = wire::netlink::kFlagRequest},
                local::IpResolveRequest{.interface_index = interface_index, .address = address});
  Question question;
  question.end = now + timeout_;
  question.gid_done = std::move(done);
  return send(sequence, datagram, std::move(question));
}

std::optional<LocalService::Question> LocalService::take(Sequence sequence) {
  auto node = questions_.extract(sequence);
  if (node.empty()) {
    return std::nullopt;
  }
  ends_.erase({node.mapped().end, sequence});
  return std::move(node.mapped());
}

void LocalService::cancel(QuestionId question) { static_cast<void>(take(question.value())); }

void LocalService::give_up(const Question& question, Instant now) const {
  if (question.gid_done) {
    question.gid_done(std::nullopt, now);
  } else {
    question.done(std::nullopt, now);
  }
}

int LocalService::receive(bool is_privileged, const wire::netlink::Message& message, Instant now) {
  const std::uint16_t type = message.header.type;
  if (!is_privileged) {
    ++counters_.strangers;
    return -EPERM;
  }
  if (type == local::kDataMessageType) {
    return receive_data(message, now);
  }
  const auto operation = static_cast<local::Operation>(type & 0x3FF & ~local::kErrorBit);
  switch (operation) {
    case local::Operation::Resolve:
      return receive_paths(message, now);
    case local::Operation::IpResolve:
      return receive_gid(message, now);
    case local::Operation::SetTimeout:
      break;
    default:
      return -EINVAL;
  }
  if (!message.header.is_request()) {
    return -EPERM;
  }
  const auto wanted = local::parse_set_timeout(message.payload);
  if (!wanted) {
    return -EINVAL;
  }
  set_timeout(wanted->milliseconds);
  return 0;
}

/// Only answers are for the kernel: a program's request is refused.
int LocalService::receive_paths(const wire::netlink::Message& message, Instant now) {
  if (message.header.is_request()) {
    return -EPERM;
  }
  auto question = take(message.header.sequence);
  if (!question || question->gid_done) {
    ++counters_.strangers;
    if (question) {
      give_up(*question, now);
    }
    return 0;
  }
  if (local::is_error(message.header.type)) {
    ++counters_.no_data;
    give_up(*question, now);
    return 0;
  }
  const auto answer = local::parse_resolve_answer(message.payload);
  finish(*question, answer ? answer->paths : std::vector<PathData>{}, now);
  return 0;
}

int LocalService::receive_gid(const wire::netlink::Message& message, Instant now) {
  if (message.header.is_request()) {
    return -EPERM;
  }
  auto question = take(message.header.sequence);
  if (!question || !question->gid_done) {
    ++counters_.strangers;
    if (question) {
      give_up(*question, now);
    }
    return 0;
  }
  if (local::is_error(message.header.type)) {
    ++counters_.no_data;
    give_up(*question, now);
    return 0;
  }
  const auto answer = local::parse_ip_resolve_answer(message.payload);
  if (!answer || answer->dgid.is_zero()) {
    ++counters_.unusable;
    give_up(*question, now);
    return 0;
  }
  ++counters_.answered;
  question->gid_done(answer->dgid, now);
  return 0;
}

int LocalService::receive_data(const wire::netlink::Message& message, Instant now) {
  const auto said = local::parse_data_message(message.payload);
  if (said && !said->is_answer) {
    const auto* const timeout = std::get_if<local::TimeoutData>(&said->data);
    if (said->opcode != DataOpcode::SetTimeout || timeout == nullptr) {
      return -EPERM;
    }
    set_timeout(timeout->milliseconds);
    return 0;
  }
  auto question = take(message.header.sequence);
  if (!question) {
    ++counters_.strangers;
    return 0;
  }
  if (question->gid_done) {
    ++counters_.unusable;
    give_up(*question, now);
    return 0;
  }
  if (said && said->status == DataStatus::NoData) {
    ++counters_.no_data;
    give_up(*question, now);
    return 0;
  }
  const auto path = said ? std::visit(PathIn{}, said->data) : std::nullopt;
  finish(*question,
         path ? std::vector{PathData{.flags = said->flags, .path = *path}}
              : std::vector<PathData>{},
         now);
  return 0;
}

/// The first record that is for this use, if it is the path that was asked for.
void LocalService::finish(Question& question, const std::vector<PathData>& paths, Instant now) {
  const std::uint32_t wanted = local::flags_wanted(question.use);
  const auto found = std::ranges::find_if(paths, [&](const PathData& data) {
    return (data.flags & wanted) == wanted && fits(data.path, question.wanted, question.mask);
  });
  if (found == paths.end()) {
    ++counters_.unusable;
    give_up(question, now);
    return;
  }
  ++counters_.answered;
  question.done(found->path, now);
}

/// What is asked already waits for longer or shorter, too.
void LocalService::set_timeout(std::uint32_t milliseconds) {
  const Duration timeout =
      Duration::milliseconds(std::clamp(milliseconds, local::kTimeoutMinMs, local::kTimeoutMaxMs));
  const Duration change = timeout - timeout_;
  timeout_ = timeout;
  ends_.clear();
  for (auto& [sequence, question] : questions_) {
    question.end = question.end + change;
    ends_.emplace(question.end, sequence);
  }
  if (on_due_) {
    on_due_();
  }
}

void LocalService::handle_timeout(Instant now) {
  while (!ends_.empty() && ends_.begin()->first <= now) {
    const auto question = take(ends_.begin()->second);
    ++counters_.timed_out;
    give_up(*question, now);
  }
}

}  // namespace weft::sa
