#pragma once

// For tests: clients of the SA of a managed fabric.

#include <gtest/gtest.h>

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "mad/management_interface.h"
#include "node/testing/managed_fabric.h"
#include "wire/mad/notice_details.h"
#include "wire/mad/sa_mad.h"

namespace weft::node::testing {

/// Receives and answers reports.
class SaReports final : public mad::MadHandler {
 public:
  const mad::MadMessage* handle(mad::MadRequest& request) override {
    heard.push_back(*wire::parse<wire::SaNotice>(ByteSpan{request.message.mad}.subspan(56)));
    return &request.message;
  }
  std::vector<wire::SaNotice> heard;
};

/// A client at the first port of a host.
class SaClient {
 public:
  struct Answer {
    bool is_answered{};
    std::uint16_t status{};
    std::uint16_t offset{};
    std::vector<std::byte> data;

    template <wire::WireType T>
    [[nodiscard]] std::vector<T> records() const {
      std::vector<T> all;
      const std::size_t step = std::size_t{offset} * 8;
      for (std::size_t at = 0; step != 0 && at + wire::kSizeOf<T> <= data.size(); at += step) {
        all.push_back(*wire::parse<T>(ByteSpan{data}.subspan(at)));
      }
      return all;
    }
  };

  SaClient(ManagedFabric& fabric, const std::string& host)
      : fabric_(fabric), at_(fabric.port(host, 1)) {
    agent_ = *gsi().register_agent({.mgmt_class = wire::ManagementClass::SubnAdm,
                                    .class_version = wire::kSaClassVersion,
                                    .methods = mad::methods({wire::MadMethod::Report})},
                                   &reports);
  }

  template <wire::WireType T>
  [[nodiscard]] Answer ask(wire::MadMethod method, wire::SaAttribute attribute,
                           const T& record = {}, std::uint64_t mask = 0) {
    mad::MadMessage request;
    wire::SaHeader header{.sm_key = sm_key, .component_mask = mask};
    header.header.method = method;
    header.header.attribute_id = static_cast<std::uint16_t>(attribute);
    wire::pack(header, std::span{request.mad}.first<56>());
    copy_bytes(std::span{request.mad}.subspan(56), wire::pack(record));
    Answer answer;
    const Lid sm = fabric_.builder.port(at_).sm_lid;
    EXPECT_TRUE(
        gsi()
            .send(
                agent_, {.lid = sm}, std::move(request), {},
                [&](const mad::Completion& completion) {
                  if (completion.answer != nullptr) {
                    const mad::MadMessage& told = *completion.answer;
                    const auto sa = wire::unpack<wire::SaHeader>(std::span{told.mad}.first<56>());
                    answer = {.is_answered = true,
                              .status = told.status(),
                              .offset = sa.attribute_offset,
                              .data = told.is_rmpp ? told.data
                                                   : std::vector<std::byte>(told.mad.begin() + 56,
                                                                            told.mad.end())};
                  }
                },
                fabric_.now)
            .has_value());
    fabric_.plane.wake(at_);
    fabric_.run_for(Duration::milliseconds(50));
    return answer;
  }

  [[nodiscard]] Gid gid() const { return Gid{kDefaultGidPrefix, fabric_.builder.port(at_).guid}; }

  SaReports reports;
  std::uint64_t sm_key{};  ///< the manager's, of a trusted client

 private:
  [[nodiscard]] mad::ManagementInterface& gsi() { return fabric_.plane.port(at_).gsi(); }

  ManagedFabric& fabric_;
  fabric::PortIndex at_;
  mad::AgentId agent_;
};

}  // namespace weft::node::testing
