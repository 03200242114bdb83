defmodule Orders.MixProject do
  use Mix.Project

  def project do
    [app: :orders, version: "1.0.0", elixir: "~> 1.14", deps: deps()]
  end

  def application do
    [extra_applications: [:logger, :inets, :ssl], mod: {Orders.Application, []}]
  end

  defp deps do
    [{:broadway, "1.2.1"}, {:broadway_kafka, "0.4.4"}, {:brod, "4.4.0"}]
  end
end
