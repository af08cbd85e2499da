#include "node/umad_file.h"

#include <algorithm>
#include <cerrno>
#include <span>
#include <utility>

#include "wire/mad/mad.h"
#include "wire/mad/rmpp.h"
#include "wire/mad/vendor_mad.h"

namespace weft::node {
namespace {

constexpr std::size_t kHeaderBytes = wire::kSizeOf<wire::MadHeader>;
// the kernel's minimum
constexpr std::size_t kLeastBytes = kHeaderBytes + wire::kSizeOf<wire::Rmpp>;

/// Upper bounds of what a program can request; policy, not from the specification.
constexpr std::uint32_t kMaxTimeoutMs = 86'400'000;
constexpr std::uint32_t kMaxRetries = 1'000;

/// For an RMPP message without a response; policy, not from the specification.
constexpr Duration kAckTimeout = Duration::seconds(2);
constexpr unsigned kAckRetries = 5;

/// The kernel's limits for a registration.
constexpr unsigned kVersionLimit = 8;
constexpr unsigned kClassLimit = 80;

[[nodiscard]] bool is_smp(wire::ManagementClass mgmt_class) {
  return mad::belongs_to(mgmt_class, mad::InterfaceKind::Smi);
}

[[nodiscard]] int errno_of(const Error& error) {
  return error.code == ErrorCode::OutOfMemory ? ENOMEM : EINVAL;
}

}  // namespace

/// Queues MADs of one agent for reading. Programs answer by sending.
class UmadFile::Agent final : public mad::MadHandler {
 public:
  Agent(UmadFile& file, std::uint32_t number, mad::ManagementInterface& its_interface)
      : interface(its_interface), file_(file), number_(number) {}

  const mad::MadMessage* handle(mad::MadRequest& request) override {
    file_.receive(number_, request.source, request.message);
    return nullptr;
  }
  void handle_segment(const mad::MadAddress& source, const mad::MadBytes& segment) override {
    file_.receive(number_, source, {.mad = segment});
  }

  mad::ManagementInterface& interface;
  mad::AgentId id{};
  bool uses_kernel_rmpp{};
  std::optional<wire::ManagementClass> answers{};

 private:
  UmadFile& file_;
  std::uint32_t number_;
};

UmadFile::UmadFile(const UmadPortAccess& access) : access_(access) {}

UmadFile::~UmadFile() {
  is_closing_ = true;
  for (const auto& agent : agents_) {
    if (agent) {
      static_cast<void>(agent->interface.unregister_agent(agent->id, Instant{}));
    }
  }
}

std::size_t UmadFile::agents() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(agents_, [](const auto& agent) { return agent != nullptr; }));
}

bool UmadFile::answers(wire::ManagementClass mgmt_class) const {
  return std::ranges::any_of(
      agents_, [&](const auto& agent) { return agent && agent->answers == mgmt_class; });
}

Result<mad::Registration> UmadFile::check(const UmadRegistration& registration) {
  const auto mgmt_class = static_cast<wire::ManagementClass>(registration.mgmt_class);
  if (registration.class_version >= kVersionLimit) {
    return fail(ErrorCode::InvalidArgument, "class version {} is above 7",
                registration.class_version);
  }
  if (registration.mgmt_class >= kClassLimit && !is_smp(mgmt_class)) {
    return fail(ErrorCode::InvalidArgument,
                "class {:#x} does not exist: classes are 0x01 to 0x4f, and 0x81",
                registration.mgmt_class);
  }
  if (registration.rmpp_version > 1 ||
      (registration.rmpp_version == 1 && registration.mgmt_class != 0 &&
       !mad::has_rmpp_header(mgmt_class))) {
    return fail(ErrorCode::InvalidArgument, "RMPP version {} for class {:#x}",
                registration.rmpp_version, registration.mgmt_class);
  }
  const bool takes_oui = wire::is_vendor_with_oui(mgmt_class);
  return mad::Registration{
      .mgmt_class = mgmt_class,
      .class_version = registration.class_version,
      .oui = takes_oui ? std::optional{registration.oui} : std::nullopt,
      .methods = registration.mgmt_class == 0 ? mad::MethodSet{} : registration.methods,
      .sends_any_class = true,
      .handles_segments = registration.rmpp_version == 0 || registration.does_rmpp,
      .name = "umad"};
}

Result<std::uint32_t> UmadFile::register_agent(const UmadRegistration& registration) {
  const auto place = std::ranges::find_if(agents_, [](const auto& agent) { return !agent; });
  if (place == agents_.end()) {
    return fail(ErrorCode::OutOfMemory, "an open port has at most {} agents", kMaxAgents);
  }
  auto checked = check(registration);
  if (!checked) {
    return std::unexpected(checked.error());
  }
  const auto number = static_cast<std::uint32_t>(place - agents_.begin());
  auto& interface = is_smp(checked->mgmt_class) ? access_.smi : access_.gsi;
  auto agent = std::make_unique<Agent>(*this, number, interface);
  agent->uses_kernel_rmpp = !checked->handles_segments;
  if (checked->methods.any()) {
    agent->answers = checked->mgmt_class;
  }
  const auto id = interface.register_agent(std::move(*checked), agent.get());
  if (!id) {
    return std::unexpected(id.error());
  }
  agent->id = *id;
  *place = std::move(agent);
  return number;
}

Result<void> UmadFile::unregister_agent(std::uint32_t agent, Instant now) {
  if (agent >= kMaxAgents || !agents_.at(agent)) {
    return fail(ErrorCode::InvalidArgument, "agent {} is not registered on this open port", agent);
  }
  const auto gone = std::move(agents_.at(agent));
  return gone->interface.unregister_agent(gone->id, now);
}

void UmadFile::send(const UmadEnvelope& envelope, ByteSpan mad, Instant now) {
  if (const auto sent = try_send(envelope, mad, now); !sent) {
    return_to_program(envelope, mad, errno_of(sent.error()));
  }
}

Result<mad::MadAddress> UmadFile::destination(const UmadEnvelope& envelope) const {
  mad::MadAddress to = envelope.address;
  const auto pkeys = access_.tables.pkeys(access_.port);
  if (envelope.pkey_index < pkeys.size()) {
    to.pkey = pkeys[envelope.pkey_index];
  } else if (envelope.pkey_index != 0) {
    return fail(ErrorCode::InvalidArgument, "the port's table has no P_Key {}",
                envelope.pkey_index);
  }
  return to;
}

Result<void> UmadFile::try_send(const UmadEnvelope& envelope, ByteSpan mad, Instant now) {
  if (envelope.agent >= kMaxAgents || !agents_.at(envelope.agent)) {
    return fail(ErrorCode::InvalidArgument, "agent {} is not registered on this open port",
                envelope.agent);
  }
  if (mad.size() < kLeastBytes) {
    return fail(ErrorCode::InvalidArgument, "a MAD of {} bytes; the least is {}", mad.size(),
                kLeastBytes);
  }
  Agent& agent = *agents_.at(envelope.agent);
  mad::MadMessage message;
  copy_bytes(message.mad, mad.first(std::min(mad.size(), message.mad.size())));
  const wire::ManagementClass mgmt_class = message.header().mgmt_class;
  if (agent.uses_kernel_rmpp && mad::has_rmpp_header(mgmt_class)) {
    // the rest of that header is filled in by RMPP
    message.is_rmpp = mad::rmpp_of(message.mad).is_active;
  }
  if (message.is_rmpp) {
    const std::size_t data_at = mad::data_offset(mgmt_class);
    if (mad.size() < data_at) {
      return fail(ErrorCode::InvalidArgument, "a message of {} bytes has no whole header",
                  mad.size());
    }
    std::ranges::fill(std::span{message.mad}.subspan(data_at), std::byte{});
    const ByteSpan data = mad.subspan(data_at);
    message.data.assign(data.begin(), data.end());
  } else if (mad.size() > wire::kMadBytes) {
    return fail(ErrorCode::InvalidArgument, "a MAD of {} bytes without RMPP", mad.size());
  }
  return transact(agent, envelope, std::move(message), now);
}

Result<void> UmadFile::transact(Agent& agent, const UmadEnvelope& envelope, mad::MadMessage message,
                                Instant now) {
  const auto to = destination(envelope);
  if (!to) {
    return std::unexpected(to.error());
  }
  const wire::MadHeader header = message.header();
  const bool expects_answer = envelope.timeout_ms != 0;
  if (mad::is_answer(header) || (!expects_answer && !message.is_rmpp)) {
    return agent.interface.post(agent.id, *to, std::move(message), now);
  }
  const auto low = static_cast<std::uint32_t>(header.transaction_id);
  mad::TransactionOptions options{.timeout = kAckTimeout,
                                  .retries = kAckRetries,
                                  .doubles_timeout = false,
                                  .follows_redirects = false,
                                  .waits_when_busy = false,
                                  .expects_answer = expects_answer,
                                  .tid_low = low};
  if (expects_answer) {
    options.timeout = Duration::milliseconds(std::min(envelope.timeout_ms, kMaxTimeoutMs));
    options.retries = std::min(envelope.retries, kMaxRetries);
  }
  // A returned MAD carries the agent's TID, as sent.
  mad::MadMessage stamped{.mad = message.mad};
  wire::MadHeader with_agent = header;
  with_agent.transaction_id = std::uint64_t{agent.id.value()} << 32 | low;
  stamped.set_header(with_agent);
  std::array<std::byte, kHeaderBytes> sent{};
  copy_bytes(sent, ByteSpan{stamped.mad}.first(kHeaderBytes));
  const auto done = [this, envelope, sent](const mad::Completion& completion) {
    switch (completion.status) {
      case mad::TransactionStatus::Answered:
        return receive(envelope.agent, completion.source, *completion.answer);
      case mad::TransactionStatus::TimedOut:
      case mad::TransactionStatus::RmppFailed:  // no response will follow
        return return_to_program(envelope, sent, ETIMEDOUT);
      case mad::TransactionStatus::Sent:
      case mad::TransactionStatus::Cancelled:
        return;
    }
  };
  const auto asked = agent.interface.send(agent.id, *to, message, options, done, now);
  if (asked) {
    return {};
  }
  const bool is_next_segment = asked.error().code == ErrorCode::Busy && !message.is_rmpp &&
                               mad::has_rmpp_header(header.mgmt_class) &&
                               mad::rmpp_of(message.mad).is_active;
  if (is_next_segment) {  // program with its own RMPP: only the first segment awaits a response
    return agent.interface.post(agent.id, *to, std::move(message), now);
  }
  return std::unexpected(asked.error());
}

void UmadFile::receive(std::uint32_t agent, const mad::MadAddress& source,
                       const mad::MadMessage& message) {
  UmadReceived received;
  received.envelope.agent = agent;
  received.envelope.address = source;
  const auto pkeys = access_.tables.pkeys(access_.port);
  const auto found = std::ranges::find(pkeys, source.pkey.base(), &PKey::base);
  if (found != pkeys.end()) {
    received.envelope.pkey_index = static_cast<std::uint16_t>(found - pkeys.begin());
  }
  if (message.is_rmpp) {
    const std::size_t data_at = mad::data_offset(message.header().mgmt_class);
    received.mad.reserve(data_at + message.data.size());
    received.mad.assign(message.mad.begin(),
                        message.mad.begin() + static_cast<std::ptrdiff_t>(data_at));
    received.mad.insert(received.mad.end(), message.data.begin(), message.data.end());
  } else {
    received.mad.assign(message.mad.begin(), message.mad.end());
  }
  queue(std::move(received));
}

void UmadFile::return_to_program(const UmadEnvelope& envelope, ByteSpan mad, int error) {
  const ByteSpan header = mad.first(std::min(mad.size(), kHeaderBytes));
  queue({
      .envelope = envelope, .error = error, .mad = {header.begin(), header.end()}
  });
}

void UmadFile::queue(UmadReceived received) {
  if (is_closing_) {
    return;
  }
  if (received_.size() >= kMaxQueued || queued_bytes_ + received.mad.size() > kMaxQueuedBytes) {
    ++dropped_;
    return;
  }
  queued_bytes_ += received.mad.size();
  received_.push_back(std::move(received));
}

void UmadFile::pop() {
  queued_bytes_ -= received_.front().mad.size();
  received_.pop_front();
}

}  // namespace weft::node
