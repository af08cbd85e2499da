#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "core/mad/mad_agent.h"
#include "wire/mad/mc_member_record.h"
#include "wire/mad/path_record.h"
#include "wire/mad/sa_mad.h"

namespace weft::core::testing {

/// Subnet administration as far as a test needs it, as an agent of the subnet manager's port:
/// `answer` makes each request into its response, or returns false for none.
class SaServer {
 public:
  static constexpr std::size_t kHeaderBytes = wire::kSizeOf<wire::SaHeader>;

  SaServer(MadService& service, Device& device, PortNumber port) {
    using enum wire::MadMethod;
    const auto agent = register_mad_agent(
        service, device, port,
        {
            .registration = {.mgmt_class = wire::ManagementClass::SubnAdm,
                             .class_version = wire::kSaClassVersion,
                             .methods = mad::methods({Get, Set, Delete, GetTable}),
                             .name = "SA"},
            .on_receive = [this](MadAgent& from, const MadReceived& mad) { serve(from, mad); }
    });
    EXPECT_TRUE(agent);
    agent_ = *agent;
  }
  ~SaServer() { unregister_mad_agent(*agent_); }
  SaServer(const SaServer&) = delete;
  SaServer& operator=(const SaServer&) = delete;

  template <wire::WireType Record>
  [[nodiscard]] static Record record_in(const mad::MadMessage& message) {
    return *wire::parse<Record>(ByteSpan{message.mad}.subspan(kHeaderBytes));
  }
  template <wire::WireType Record>
  static bool answer_with(mad::MadMessage& message, const Record& record) {
    copy_bytes(std::span{message.mad}.subspan(kHeaderBytes), wire::pack(record));
    return true;
  }
  /// The path that was asked for, to LID 7.
  static bool tell_path(mad::MadMessage& message) {
    auto path = record_in<wire::PathRecord>(message);
    path.dlid = Lid{7};
    return answer_with(message, path);
  }
  /// Takes every member, of MLID 0xC001.
  static bool take_member(mad::MadMessage& message) {
    auto member = record_in<wire::McMemberRecord>(message);
    member.mlid = Lid{0xC001};
    return answer_with(message, member);
  }
  static bool refuse(mad::MadMessage& message, wire::SaStatus status) {
    message.set_status(static_cast<std::uint16_t>(status));
    return true;
  }

  std::function<bool(mad::MadMessage&)> answer = tell_path;
  std::vector<wire::MadMethod> methods;  ///< of all requests

 private:
  void serve(MadAgent& agent, const MadReceived& mad) {
    methods.push_back(mad.message.header().method);
    MadSend send{.to = mad.source, .message = mad.message};
    if (answer(send.message)) {
      mad::convert_to_response(send.message);
      EXPECT_TRUE(post_mad(agent, std::move(send)));
    }
  }

  MadAgent* agent_{};
};

}  // namespace weft::core::testing
